"""`jumar repo upload|import|publish|gc`: files into repositories without git, and what they leave behind."""

from pathlib import Path

import click

from jumar.cli import completing
from jumar.cli.connect import connected
from jumar.cli.output import labelled, note, print_json, readable_line, say
from jumar.cli.repo_options import AS_JSON, KIND, KINDS, named
from jumar.client import Client, downloaded
from jumar.errors import BadInput, NotFound
from jumar.spec.repos import CommitRecord, RepoRecord

_BRANCH = click.option(
    "--branch", default="main", show_default=True, help="The branch to commit to."
)
_MESSAGE = click.option("-m", "--message", default="", help="The commit message.")


@click.command()
@KIND
@click.argument("name")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.argument("into", default="")
@_BRANCH
@_MESSAGE
@AS_JSON
def upload(
    kind: str, name: str, path: Path, into: str, branch: str, message: str, as_json: bool
) -> None:
    """Upload a file or a folder as one commit, without git.

    Large files go through LFS; what the server has already is not sent again. INTO is the folder in the
    repository; the files of a folder go to its top by default.

    \b
    Examples:
      jumar repo upload model ann/lenet lenet.ckpt
      jumar repo upload dataset mnist ./mnist/train train -m "Training split"
    """
    with connected() as client:
        repo = named(client, kind, name)
        made = _upload(client, repo, path, into, branch, message)
    _tell(repo, made, as_json)


@click.command("import")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--kind", type=click.Choice(KINDS), help="What it is, if its files do not show it.")
@click.option("--name", metavar="[OWNER/]NAME", help="Its name.  [default: the folder's]")
@click.option("--private", is_flag=True, help="Only you, or your group, can see it.")
@AS_JSON
def import_(folder: Path, kind: str | None, name: str | None, private: bool, as_json: bool) -> None:
    """Turn a downloaded model or data set into a repository, or update that repository.

    FOLDER may also be a folder of the Hugging Face cache (models--OWNER--NAME).

    \b
    Examples:
      jumar repo import ./resnet50
      jumar repo import ~/.cache/huggingface/hub/models--Qwen--Qwen3-0.6B
      jumar repo import ./images --kind dataset --name vision/images --private
    """
    found = downloaded.read(folder)
    known = kind or found.kind
    if not known:
        raise BadInput(
            f"{folder} may be a model or a data set",
            hint="say which: --kind model or --kind dataset",
        )
    with connected() as client:
        repo = _made(client, known, name or found.name, private)
        made = _upload(client, repo, found.folder, "", "main", f"Import {found.name}")
    _tell(repo, made, as_json)


@click.command()
@click.argument("job", shell_complete=completing.jobs)
@click.argument("name", metavar="[OWNER/]NAME")
@click.option("--path", default="", help="A file or folder of the job; by default its results.")
@click.option("--private", is_flag=True, help="Only you, or your group, can see a new repository.")
@_BRANCH
@AS_JSON
def publish(job: str, name: str, path: str, private: bool, branch: str, as_json: bool) -> None:
    """Publish the results of a job as a model, with a card.

    The card records the commit of the code, the revisions of the data, parameters, environment, metrics,
    and the proof of a port. The repository is created if it does not exist.

    \b
    Examples:
      jumar repo publish lenet5-mnist lenet
      jumar repo publish k7x2m9q4tb vision/lenet --path code/output/lenet-10_1875.ckpt
    """
    with connected() as client:
        made = client.publish(job, name, path=path, private=private, branch=branch)
    assert made.repo is not None
    _tell(made.repo, made, as_json)


@click.command()
@AS_JSON
def gc(as_json: bool) -> None:
    """Remove what no repository refers to any longer; for administrators.

    The server does this once a day by itself. Files that were uploaded in the last day are kept, even if no
    commit has them yet.

    \b
    Example:
      jumar repo gc
    """
    with connected() as client:
        found = client.collect_repos()
    if as_json:
        print_json(found)
        return
    for word, value in (
        ("deleted large files", f"{found.objects} ({found.bytes} bytes)"),
        ("deleted folders of removed jobs", found.checkouts),
        ("repositories that cannot be read", found.skipped),
    ):
        say(labelled(word, str(value)))


def _made(client: Client, kind: str, name: str, private: bool) -> RepoRecord:
    try:
        return named(client, kind, name)
    except NotFound:
        owner, _, short = name.rpartition("/")
        return client.create_repo(kind, short, owner=owner, private=private)


def _upload(
    client: Client, repo: RepoRecord, path: Path, into: str, branch: str, message: str
) -> CommitRecord:
    inside = f"{into.strip('/')}/" if into.strip("/") else ""
    files = {f"{inside}{inner}": place for inner, place in downloaded.files_below(path).items()}
    if not files:
        raise BadInput(f"{path} has no files")
    return client.upload_files(
        repo, files, branch=branch, message=message, on_sent=lambda one: note(readable_line(one))
    )


def _tell(repo: RepoRecord, made: CommitRecord, as_json: bool) -> None:
    if as_json:
        print_json(
            {"commit": made.commit, "kind": repo.kind, "owner": repo.owner, "name": repo.name}
        )
        return
    print(f"hub://{repo.kind}/{repo.owner}/{repo.name}@{made.commit}")
