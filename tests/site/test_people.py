"""Three people with closed homes use a site: by socket, without login, each as herself."""


from tests.site.conftest import Host


def test_each_runs_in_her_own_folder(site: Host) -> None:
    for user in site.users:
        folder = site.home(user) / "work"
        folder.mkdir()
        (folder / "train.py").write_text(
            "import os, sys\nopen('result.txt', 'w').write('trained')\nprint('hello from', os.getuid(), os.getcwd())\n"
        )
        for path in (folder, folder / "train.py"):
            path.chmod(0o700)
            __import__("shutil").chown(path, user, user)
        _, out, err = site.jumar(
            user, "run", "--follow", "--", "/usr/bin/python3", "train.py", folder=folder
        )
        assert f"hello from {site.uid(user)} {folder}" in out, (out, err)
        assert (folder / "result.txt").stat().st_uid == site.uid(user)
        _, out, _ = site.jumar(user, "jobs", "--json")
        print(out)
