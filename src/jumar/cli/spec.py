"""`jumar spec`: job files, checked without a server."""

from pathlib import Path

import click

from jumar.cli.output import local, print_json, say


@click.group(no_args_is_help=True)
def command() -> None:
    """Check job files.

    \b
    Example:
      jumar spec check job.yaml
    """


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the whole job as JSON.")
def check(file: Path, as_json: bool) -> None:
    """Check that FILE is a valid job; errors name the line and the field.

    \b
    Example:
      jumar spec check job.yaml
    """
    from jumar.spec.document import read_spec_file

    spec = read_spec_file(file)
    if as_json:
        print_json(spec.masked())
    else:
        say(
            local(
                "{file}: ok ({name}, {device}, 1 node)"
                if spec.nodes == 1
                else "{file}: ok ({name}, {device}, {nodes} nodes)",
                file=file,
                name=spec.name,
                device=spec.device,
                nodes=spec.nodes,
            )
        )


@command.command()
def schema() -> None:
    """Print the JSON Schema of job files.

    \b
    Example:
      jumar spec schema > job.schema.json
    """
    from pydantic.json_schema import GenerateJsonSchema

    from jumar.spec.job import JobSpec

    dialect = {"$schema": GenerateJsonSchema.schema_dialect}
    print_json(dialect | JobSpec.model_json_schema())
