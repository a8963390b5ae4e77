"""Every operation of the facts' table with the vendor's SDK: a program of its own, as text."""

WALK = r"""
import json
import os
import sys
import time

from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.exceptions.exceptions import ClientRequestException
from huaweicloudsdkmodelarts.v1 import *
from huaweicloudsdkmodelarts.v1 import ModelArtsClient
from huaweicloudsdkmodelarts.v1.region.modelarts_region import ModelArtsRegion

bucket, how = sys.argv[1:]
credentials = BasicCredentials(os.environ["AK"], os.environ["SK"], os.environ["PROJECT"])
builder = ModelArtsClient.new_builder().with_credentials(credentials)
if how == "endpoint":
    builder = builder.with_endpoint(os.environ["ENDPOINT"])
else:
    builder = builder.with_region(ModelArtsRegion.value_of("cn-north-4"))
client = builder.build()


def wait(job, *phases):
    until = time.monotonic() + 180
    while True:
        found = client.show_training_job_details(ShowTrainingJobDetailsRequest(training_job_id=job))
        if found.status.phase in phases:
            return found
        assert time.monotonic() < until, found.status.phase
        time.sleep(0.1)


def job(name, boot, flavor="modelarts.vm.cpu.2u", parameters=()):
    return CreateTrainingJobRequest(
        body=Job(
            kind="job",
            metadata=JobMetadata(name=name, description="first", annotations={"a": "b"}),
            algorithm=JobAlgorithm(
                code_dir=f"/{bucket}/demo code/",
                boot_file=f"/{bucket}/demo code/{boot}",
                parameters=[Parameters(name=key, value=value) for key, value in parameters],
                inputs=[
                    Input(
                        name="data_url",
                        local_dir="/home/work/data",
                        remote=InputDataInfo(obs=InputDataInfoObs(f"obs://{bucket}/data/")),
                    )
                ],
                outputs=[
                    Output(name="train_url", remote=Remote(obs=RemoteObs(f"/{bucket}/{name}-out/")))
                ],
                engine=JobEngine(engine_id="pytorch_1.8.0-cuda_10.2-py_3.7-ubuntu_18.04-x86_64"),
                environments={"LR": "0.5", "API_TOKEN": "do not show"},
            ),
            spec=Spec(
                resource=SpecResource(flavor_id=flavor, node_count=1),
                log_export_path=LogExportPath(obs_url=f"/{bucket}/log/"),
                auto_stop=AutoStop(time_unit="HOURS", duration=1),
                schedule_policy=SchedulePolicy(priority=2, preemptible=False),
            ),
        )
    )


flavors = client.show_training_job_flavors(ShowTrainingJobFlavorsRequest()).flavors
assert "modelarts.vm.gpu.free" in [one.flavor_id for one in flavors]
engines = client.show_training_job_engines(ShowTrainingJobEnginesRequest())
assert engines.total == len(engines.items) > 0
(quota,) = client.show_training_quotas(ShowTrainingQuotasRequest(resource="job-num")).quotas
assert quota.used < quota.quota

made = client.create_training_job(
    job(f"walk-{how}", "train.py", parameters=[("lr", "0.1"), ("note", "two words")])
)
assert made.metadata.name == f"walk-{how}"
one = made.metadata.id
taken = client.validate_training_job_name(ValidateTrainingJobNameRequest(job_name=f"walk-{how}"))
assert taken.is_duplicate is True
done = wait(one, "Completed", "Failed")
log = client.show_training_job_logs_preview(
    ShowTrainingJobLogsPreviewRequest(training_job_id=one, task_id="worker-0")
)
assert done.status.phase == "Completed", (done.status, log.content)
assert done.status.tasks == ["worker-0"]
assert done.status.duration > 0
assert "do not show" not in str(done)
assert log.full_size == log.current_size == len(log.content.encode())
told = json.loads(log.content.splitlines()[-1])
assert told["lr"] == "0.1", told
assert told["note"] == "two words", told
assert told["fixed"] == told["chosen"] == "some data", told
assert done.algorithm.inputs[0].local_dir == "/home/work/data"
assert told["data"] == "some data", told
assert told["code"] == told["file"], told
lines = client.show_training_job_logs_from_aom(
    ShowTrainingJobLogsFromAomRequest(training_job_id=one, task_id="worker-0", lines=1)
)
assert json.loads(lines.content) == told
assert lines.lines == 1
metrics = client.show_training_job_metrics(
    ShowTrainingJobMetricsRequest(training_job_id=one, task_id="worker-0")
).metrics
assert {"cpuUsage", "gpuUtil", "npuUtil", "npuMemUsage"} <= {one.metric for one in metrics}
events = client.list_training_job_events(
    ListTrainingJobEventsRequest(training_job_id=one, limit=20)
)
assert events.total == len(events.events) >= 3
stages = client.list_training_job_stages(ListTrainingJobStagesRequest(training_job_id=one))
assert stages.total_count == 1
tasks = client.list_training_job_tasks(ListTrainingJobTasksRequest(training_job_id=one))
assert [task.task for task in tasks.body] == ["worker-0"]
client.change_training_job_description(
    ChangeTrainingJobDescriptionRequest(
        training_job_id=one, body=JobUpdateRequestBody(description="second 名")
    )
)
found = client.list_training_jobs(
    ListTrainingJobsRequest(
        body=JobSearches(
            offset=0,
            limit=10,
            filters=[Filter(key="name", operator="equal", value=[f"walk-{how}"])],
        )
    )
)
assert found.total == 1, found
assert found.items[0].metadata.description == "second 名"
assert found.items[0].metadata.annotations == {"a": "b"}

two = client.create_training_job(job(f"long-{how}", "wait.py")).metadata.id
wait(two, "Running")
client.stop_training_job(
    StopTrainingJobRequest(training_job_id=two, body=JobActionType(action_type="terminate"))
)
wait(two, "Terminated")
for each in (one, two):
    client.delete_training_job(DeleteTrainingJobRequest(training_job_id=each))
    try:
        client.show_training_job_details(ShowTrainingJobDetailsRequest(training_job_id=each))
    except ClientRequestException as error:
        assert error.status_code == 404, error
        assert error.error_code.startswith("ModelArts."), error
        assert each in error.error_msg
    else:
        raise AssertionError("a deleted job is shown")
three = client.create_training_job(job(f"batch-{how}", "train.py")).metadata.id
client.batch_delete_training_job(
    BatchDeleteTrainingJobRequest(
        body=BatchDeleteJobsReq(
            jobs=[BatchDeleteJobItem(kind="job", metadata=BatchDeleteJobMetadata(id=three))]
        )
    )
)
wrong = BasicCredentials(os.environ["AK"], "wrong", os.environ["PROJECT"])
stranger = (
    ModelArtsClient.new_builder()
    .with_credentials(wrong)
    .with_endpoint(os.environ["ENDPOINT"])
    .build()
)
try:
    stranger.show_training_job_engines(ShowTrainingJobEnginesRequest())
except ClientRequestException as error:
    assert error.status_code == 401, error
    assert error.error_code == "APIGW.0301", error
else:
    raise AssertionError("a wrong SK is let in")
print("walked")
"""
