"""The runner behind `make test`, on small projects of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[2] / "tools/run_tests.py"
ONCE = """
    from pathlib import Path
    import os, signal, sys, time
    import pytest

    def first_time(name):
        seen = Path(__file__).with_name(f"{name}.seen")
        if seen.exists():
            return False
        seen.touch()
        return True
"""
# Only the plugins that matter here: each of these runs starts pytest several times.
INI = (
    "[pytest]\n"
    "addopts = --import-mode=importlib -p no:cacheprovider -p xdist.plugin -p pytest_timeout\n"
)


class Project:
    """A folder of tests, and the runner on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text(INI)
        # What an outer pytest sets for its own workers is not for this one.
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")},
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }

    def write(self, body: str, name: str = "test_it.py") -> None:
        lines = [*ONCE.splitlines(), *body.splitlines()]
        (self.folder / name).write_text("\n".join(line.removeprefix("    ") for line in lines))

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, RUNNER, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=300)
        return process.returncode, said

    def tries(self) -> list[str]:
        """The tests that wrote down that they ran, a line each time."""
        path = self.folder / "tries"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "worksteal")], ids=["one", "two"])
def test_what_passes_alone_is_listed_as_flaky_and_green(
    project: Project, workers: tuple[str, ...]
) -> None:
    project.write("""
    def test_good(): pass
    def test_moody(): assert not first_time("moody"), "the first failure"
    """)
    code, said = project.run(*workers)
    assert code == 0
    end = said.partition("flaky: 1")[2]
    assert "test_it.py::test_moody" in end
    assert "the first failure" in end
    assert "test_good" not in end


def test_nothing_failed_nothing_is_flaky(project: Project) -> None:
    project.write("def test_good(): pass")
    code, said = project.run()
    assert code == 0
    assert said.splitlines()[-1] == "flaky: none"


def test_what_fails_twice_is_red(project: Project) -> None:
    project.write("""
    def test_moody(): assert not first_time("moody")
    def test_broken(): assert False
    """)
    code, said = project.run()
    assert code == 1
    assert "flaky: 1" in said
    assert said.partition("red: 1")[2].split()[-1] == "test_it.py::test_broken"


def test_more_than_three_are_red_and_not_tried_again(project: Project) -> None:
    project.write("""
    @pytest.fixture(scope="session")
    def server():
        with open("tries", "a") as tries: print("server", file=tries)
        raise OSError("no server today")
    @pytest.mark.parametrize("number", range(40))
    def test_it(number, server): pass
    """)
    code, said = project.run()
    assert code == 1
    assert project.tries() == ["server"]
    assert "40 failed, 3 at most may be flaky" in said


def test_three_are_forgiven(project: Project) -> None:
    project.write("""
    @pytest.mark.parametrize("number", range(3))
    def test_it(number): assert not first_time(number)
    """)
    code, said = project.run()
    assert code == 0
    assert "flaky: 3" in said


@pytest.mark.full
def test_errors_of_setup_and_teardown_are_failures_too(project: Project) -> None:
    project.write("""
    @pytest.fixture
    def before(): assert not first_time("before"), "no setup"
    @pytest.fixture
    def after():
        yield
        assert not first_time("after"), "no teardown"
    def test_before(before): pass
    def test_after(after): pass
    """)
    code, said = project.run()
    assert code == 0
    end = said.partition("flaky: 2")[2]
    assert "no setup" in end
    assert "no teardown" in end


@pytest.mark.full
def test_a_test_that_fails_in_teardown_again_is_red(project: Project) -> None:
    project.write("""
    @pytest.fixture
    def after():
        yield
        assert False
    def test_after(after): pass
    """)
    assert project.run()[0] == 1


def test_a_test_that_killed_its_worker_has_a_second_try(project: Project) -> None:
    project.write("""
    def test_good(): pass
    def test_crash():
        if first_time("crash"): os.kill(os.getpid(), signal.SIGKILL)
    """)
    code, said = project.run("-n", "2")
    assert code == 0, said
    assert "crashed while running 'test_it.py::test_crash'" in said.partition("flaky: 1")[2]


@pytest.mark.full
def test_a_test_that_ran_out_of_time_has_a_second_try(project: Project) -> None:
    project.write("""
    @pytest.mark.timeout(1)
    def test_slow():
        if first_time("slow"): time.sleep(600)
    """)
    code, said = project.run()
    assert code == 0
    assert "Timeout" in said.partition("flaky: 1")[2]


@pytest.mark.full
def test_a_run_whose_pytest_was_killed_is_red(project: Project) -> None:
    project.write("""
    def test_crash():
        if first_time("crash"): os.kill(os.getpid(), signal.SIGKILL)
    """)
    code, said = project.run()
    assert code == 128 + signal.SIGKILL
    assert "pytest fell over" in said


@pytest.mark.parametrize(
    "workers",
    [pytest.param((), id="one"), pytest.param(("-n", "2"), id="two", marks=pytest.mark.full)],
)
def test_a_file_that_cannot_be_collected_is_never_forgiven(
    project: Project, workers: tuple[str, ...]
) -> None:
    project.write("def test_good(): pass")
    project.write("raise ValueError('cannot be read')", "test_broken.py")
    code, said = project.run(*workers)
    assert code not in (0, 5), said
    assert "flaky" not in said
    assert "cannot collect test_broken.py" in said
    # Nor where pytest was told to go on without it.
    code, said = project.run(*workers, "--continue-on-collection-errors")
    assert code != 0, said
    assert "flaky" not in said


@pytest.mark.full
@pytest.mark.parametrize(
    "names",
    [
        ("a::b", "x[y]z", "docs/a page.md"),
        ("-k", "é\n☃", "$(exit 1)`'\""),
        ("\0\x1b[31m", "@a", ""),
    ],
    ids=["path", "shell", "control"],
)
def test_ids_with_odd_characters_are_found_again(
    project: Project, names: tuple[str, str, str]
) -> None:
    project.write(f"""
    @pytest.mark.parametrize("name", {names!r})
    def test_it(name):
        with open("tries", "a") as tries: print(ascii(name), file=tries)
        assert not first_time(name.encode().hex())
    """)
    code, said = project.run()
    assert code == 0, said
    assert "flaky: 3" in said
    # Each was tried alone.
    assert project.tries() == [ascii(name) for name in names] * 2


@pytest.mark.full
def test_a_test_that_is_skipped_the_second_time_has_not_passed(project: Project) -> None:
    project.write("""
    def test_it():
        if first_time("it"): assert False
        pytest.skip("not today")
    """)
    assert project.run()[0] == 1


@pytest.mark.parametrize("early", [("-x",), ("-n", "1", "--max-worker-restart=0")])
def test_a_run_that_stopped_early_is_red(project: Project, early: tuple[str, ...]) -> None:
    project.write("""
    def test_crash():
        if first_time("crash"):
            if "PYTEST_XDIST_WORKER" in os.environ: os.kill(os.getpid(), signal.SIGKILL)
            assert False
    def test_never(): assert False
    def test_nor_this(): assert False
    """)
    code, said = project.run(*early)
    assert code != 0, said
    assert "flaky" not in said.replace("may be flaky", ""), said


@pytest.mark.full
def test_arguments_choose_the_tests_of_the_first_run(project: Project) -> None:
    project.write("""
    def test_one():
        with open("tries", "a") as tries: print("one", file=tries)
        assert not first_time("one")
    def test_two(): assert False
    """)
    project.write("def test_three(): assert False", "test_other.py")
    code, _ = project.run("test_it.py", "-k", "one")
    assert code == 0
    assert project.tries() == ["one", "one"]
    assert project.run("-k", "nothing")[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_interrupting_ends_all_and_tries_nothing_again(project: Project) -> None:
    project.write("""
    def test_bad(): assert False
    def test_long():
        print("LONG", file=sys.__stderr__, flush=True)
        time.sleep(600)
    """)
    process = project.start("--capture=no")
    assert process.stdout is not None
    while "LONG" not in process.stdout.readline():
        assert process.poll() is None
    # As the terminal does it: to everybody.
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=180)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in said
    assert "again, alone" not in said


@pytest.mark.full
def test_the_runner_does_not_outlive_its_pytest_nor_the_other_way_round(project: Project) -> None:
    project.write("""
    def test_long():
        print("LONG", os.getpid(), file=sys.__stderr__, flush=True)
        time.sleep(600)
    """)
    process = project.start("--capture=no")
    assert process.stdout is not None
    while "LONG" not in (line := process.stdout.readline()):
        assert process.poll() is None
    process.terminate()
    # The output ends when the last process that holds it has ended.
    process.communicate(timeout=180)
    assert process.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(line.rpartition("LONG")[2]), 0)
