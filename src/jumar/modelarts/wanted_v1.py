"""What a client of ModelArts asks for as v1 writes it: a job, its next version, a configuration that is kept."""

from typing import Annotated

from pydantic import Field

from jumar.errors import BadInput
from jumar.modelarts.wanted import Line, Sent, Short, TrainingJob, Value, store_url


class _Label(Sent):
    label: Short
    value: Value | None = ""


class _Source(Sent):
    type: Short | None = None
    data_url: Line | None = None
    dataset_id: Short | None = None


class V1Config(Sent):
    """The `config` of a create of v1. Ids are numbers, or text with one."""

    worker_server_num: Annotated[int, Field(ge=1, le=4096)] = 1
    app_url: Line = ""
    boot_file_url: Line = ""
    parameter: Annotated[list[_Label], Field(max_length=1000)] | None = None
    data_url: Line | None = None
    data_source: Annotated[list[_Source], Field(max_length=100)] | None = None
    dataset_id: Short | None = None
    train_url: Line | None = None
    log_url: Line | None = None
    engine_id: Value | None = None
    spec_id: Value | None = None
    user_command: Annotated[str, Field(max_length=131072)] | None = None
    user_image_url: Line | None = None

    def as_job(self, name: str, description: str) -> TrainingJob:
        """The same as v2 writes it."""
        places = {"data_url": self._data(), "train_url": self.train_url}
        # Of these v1 tells the script the address; it is the script that copies, with moxing.
        parameters = [
            {"name": name, "value": store_url(url)} for name, url in places.items() if url
        ]
        parameters += [
            {"name": one.label, "value": one.value}
            for one in self.parameter or ()
            if not places.get(one.label)
        ]
        return TrainingJob.model_validate(
            {
                "metadata": {"name": name, "description": description},
                "algorithm": {
                    "code_dir": self.app_url or None,
                    "boot_file": self.boot_file_url or None,
                    "command": self.user_command or None,
                    "parameters": parameters,
                    "engine": {"engine_id": self.engine_id, "image_url": self.user_image_url},
                },
                "spec": {
                    "resource": {"flavor_id": self.spec_id, "node_count": self.worker_server_num},
                    "log_export_path": {"obs_url": self.log_url} if self.log_url else None,
                },
            }
        )

    def _data(self) -> str | None:
        """The one place that the data is at, whichever way it is given."""
        sources = self.data_source or []
        if self.dataset_id or any(one.dataset_id for one in sources):
            raise BadInput(
                "config.dataset_id: there are no data sets of ModelArts here",
                hint="give the folder in OBS as data_url",
            )
        urls = [url for url in (self.data_url, *(one.data_url for one in sources)) if url]
        if len(urls) > 1:
            raise BadInput(f"config: data_url can be one folder, not {len(urls)}")
        return urls[0] if urls else None


class V1Job(Sent):
    """The body of a create of v1."""

    job_name: Annotated[str, Field(min_length=1, max_length=64)]
    job_desc: Annotated[str, Field(max_length=256)] | None = None
    config: V1Config


class V1Words(Sent):
    """The body of an edit of v1."""

    job_desc: Annotated[str, Field(max_length=256)]


class V1ConfigChange(V1Config):
    """The body of a change of a configuration that is kept."""

    config_desc: Annotated[str, Field(max_length=256)] | None = None


class V1KeptConfig(V1ConfigChange):
    """The body of a create of a configuration: what a job would be created with, under a name."""

    config_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class V1Version(Sent):
    """The body of a next version of v1."""

    job_desc: Annotated[str, Field(max_length=256)] | None = None
    config: V1Config
