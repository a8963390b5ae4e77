"""What programs say does not reach beyond what they say: the same words of another fault are told as that one."""

import pytest
from tests.why.logs import verdict_of as _of

_RAISED = """\
Traceback (most recent call last):
  File "/u/train.py", line 12, in <module>
    {}
{}
"""
_KEY = _RAISED.format('x = d["a"]', "KeyError: 'a'")
_SHAPE = _RAISED.format(
    "y = x.view(3, 4)", "RuntimeError: shape '[3, 4]' is invalid for input of size 13"
)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        # What a platform says of a pod, a folder or a repository was said before the program ended itself.
        (
            '  Warning  FailedMount  5m  kubelet  MountVolume.SetUp failed for volume "token" : failed to sync configmap cache\n'
            + _SHAPE,
            "shape",
        ),
        (
            "  Warning  FailedCreatePodSandBox  9m  kubelet  Failed to create pod sandbox: rpc error: code = Unknown"
            ' desc = failed to setup network for sandbox "a": plugin type="calico" failed (add): Unauthorized\n'
            + _SHAPE,
            "shape",
        ),
        (
            '  Warning  Unhealthy  1m  kubelet  Liveness probe failed: Get "http://10.1.2.3:8000/health": dial tcp: connect:'
            " connection refused\n" + _SHAPE,
            "shape",
        ),
        (
            "[n1:213] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 169\n" + _SHAPE,
            "shape",
        ),
        (
            "slurmstepd: error: couldn't chdir to `/home/u/x': No such file or directory: going to /tmp instead\n"
            + _SHAPE,
            "shape",
        ),
        (
            "W: Failed to fetch https://x.org/InRelease  The public key is not available: NO_PUBKEY A4B469963BF863CC\n"
            + _SHAPE,
            "shape",
        ),
        ("rm: cannot remove '/tmp/x': No such file or directory\n" + _KEY, "key-missing"),
        ("ls: cannot access '/usr/local/cuda': No such file or directory\n" + _KEY, "key-missing"),
        ("ntasks=4, requeue on NODE_FAIL: yes\n" + _KEY, "key-missing"),
        ("step 802 error 802 samples skipped\n" + _KEY, "key-missing"),
        # A card that does not answer is a peer's end as often as a link's.
        (
            "n2:12:40 [3] NCCL WARN NET/IB : Got completion from peer 10.0.0.7<41> with status=12 opcode=0 len=0\n"
            + _KEY,
            "key-missing",
        ),
        (
            "n1:332:410 [0] NCCL WARN Net : Connection closed by remote peer n1<40112>\n",
            "peer-lost",
        ),
        # A number behind a word is no exit code.
        ("epoch 3, status 137 samples processed\n", None),
        ("The error code 139 is returned by the license server\n", None),
        ("Process finished with exit code 245\n", "crash"),
        ("Process finished with exit code 247\n", "killed"),
        # A disk that nobody uses, and one that fails.
        (
            "[3.1] blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ)\n" + _KEY,
            "key-missing",
        ),
        ("[3.1] blk_update_request: I/O error, dev sdb, sector 88 op 0x0:(READ)\n", "disk-broken"),
        ("OSError: [Errno 28] inotify watch limit reached\n", "watch-limit"),
        (
            "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory\n",
            "container-driver",
        ),
        (
            "RuntimeError: NPU function error: aclrtMallocHost(&p, n), error code is 207001\n",
            "host-allocation",
        ),
        (
            "RuntimeError: NPU function error: aclrtMalloc(&p, n), error code is 207001\n",
            "device-memory",
        ),
        (
            "RuntimeError: The Inner error is reported as above.\nEL0004: [PID: 2] Failed to allocate memory.\n",
            "device-memory",
        ),
    ],
)
def test_the_fault_that_is_told_is_the_one_that_ended_it(log: str, cause: str | None) -> None:
    assert _of(log).cause == cause


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("RuntimeError: cannot register worker twice: name 'w3' is taken", "scheduler"),
        ("ValueError: vocabulary entries must be lowercase, got 'Abc'", "A setting is not allowed"),
        (
            "jsonschema.exceptions.ValidationError: Additional properties are not allowed ('warmup' was unexpected)",
            "docker compose",
        ),
        (
            'Error: Post "http://localhost:8080/completion": dial tcp 127.0.0.1:8080: connect: connection refused',
            "kubectl",
        ),
        ('train.sh: 31: Syntax error: end of file unexpected (expecting "fi")', "has Windows line"),
        (
            "ERROR: Could not find a version that satisfies the requirement opencv-python-headless==9.9 (from versions: 4.8.0)",
            "is not called",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement torch-npu==2.1.0+gitabc (from versions: 2.1.0)",
            "builds with",
        ),
        (
            "botocore.exceptions.ClientError: An error occurred (AccessDeniedException) when calling the CreateTrainingJob"
            " operation: not authorized",
            "object store",
        ),
        (
            "botocore.exceptions.ClientError: An error occurred (400) when calling the HeadObject operation: Bad Request",
            "region",
        ),
        (
            "Failed to pull image: failed to extract layer sha256:ab: write /var/lib/x: no space left on device",
            "Apptainer",
        ),
        ("ssh: connect to host github.com port 22: Connection timed out", "another host"),
        (
            "Unable to connect to the server: x509: certificate signed by unknown authority",
            "does not reach",
        ),
        ("ops.cpp:3:10: fatal error: 'clang_helper.h' file not found", "CANN"),
        ("n2:12:40 [3] misc/x.cc:1 NCCL WARN Error : unable to allocate scratch", "topology"),
        ("Lost executor 3 on 10.0.0.4: worker marked as dead", "Ray"),
        (
            "Error: crun: set propagation for `/proc`: Invalid argument: OCI runtime error",
            "asks this kernel",
        ),
        ("slurmstepd: error: execve(): /home/u/train.py: Exec format error", "processor"),
        (
            _RAISED.format(
                "sock.shutdown(2)", "OSError: [Errno 107] Transport endpoint is not connected"
            ),
            "has lost",
        ),
        (
            "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)",
            "not there",
        ),
        ("tar: data/x.png: Cannot open: Permission denied", "Cannot open"),
    ],
)
def test_a_program_is_not_taken_for_another(line: str, said: str) -> None:
    assert said not in _of(f"{line}\n").what["en"]


_SAID = _RAISED.format('raise ValueError("bad sample 31")', "ValueError: bad sample 31")


@pytest.mark.parametrize(
    "below",
    [
        "Back-off restarting failed container train in pod x",
        "  Warning  BackOff  10s  kubelet  Back-off restarting failed container train in pod x",
        "pyxis: child 2231 failed with error code: 1",
        "[n1:00213] PMIX ERROR: UNREACHABLE in file server/pmix_server.c at line 2198",
        "mpirun was unable to launch the specified application as it could not access",
        "run.sh: line 9: jq: command not found",
        "cp: error writing '/out/x': No space left on device",
        "fatal: not a git repository (or any of the parent directories): .git",
        "[ModelArts Service Log]task failed: No space left on device",
        'time="2026-01-05T10:11:12Z" level=error msg="no space left on device"',
        "make: *** [Makefile:3: train] Error 1",
        "[ERROR] TBE Subprocess[task_distribute] raise error[], main process disappeared!",
        "Something else\n[ERROR] TBE Subprocess[task_distribute] raise error[], main process disappeared!",
    ],
)
def test_what_a_program_says_below_an_exception_is_not_its_message(below: str) -> None:
    verdict = _of(f"{_SAID}{below}\n")
    assert "bad sample 31" in verdict.what["en"]


def test_a_step_of_an_images_build_tells_what_its_command_said() -> None:
    pip = (
        "#12 3.210 ERROR: Could not find a version that satisfies the requirement torch==9.1 (from versions: 2.0.0)\n"
        '#12 ERROR: process "/bin/sh -c pip install -r x" did not complete successfully: exit code: 1\n'
        'ERROR: failed to solve: process "/bin/sh -c pip install -r x" did not complete successfully: exit code: 1\n'
    )
    assert _of(pip).cause == "module-missing"
    raised = "".join(f"#14 2.120 {line}\n" for line in _SAID.splitlines())
    failed = (
        '#14 ERROR: process "/bin/sh -c python x.py" did not complete successfully: exit code: 1\n'
    )
    assert "bad sample 31" in _of(raised + failed).what["en"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('ERROR: column "label" not found in table "train"', "kubectl"),
        ("ERROR: prompt exceeded max_length (512)", "quota"),
        ("ERROR: data loading will slow down training", "quota"),
        ("Error: recursion limit has been exceeded", "quota"),
        ("ERROR: this script requires 16 GB of memory", "A certain version"),
        ("[ERROR] device 3 is not available", "cgroup"),
        ("ERROR: refresh token is missing in config", "run out"),
        ("ERROR: bad permissions for config", "private key"),
        ("ERROR: dtype int8 is not signed", "signature"),
        ("ERROR: model not restored; restore first", "archive class"),
        ("ERROR: step skipped due to policy gradient being NaN", "A policy"),
        ("ERROR: PEIO module failed", "disk"),
        ("tar: Exiting with failure status due to previous errors", "archive cannot"),
        ("azure.core.exceptions.ClientAuthenticationError: Blob credential expired", "Slurm"),
        ("google.api_core.exceptions.RetryError: Failed to connect to GCS bucket gs://d", "Ray"),
        ("ERROR: helper returned error code: 4", "registry"),
        ("ERROR: connect to 10.0.0.1:6379 failed: Connection refused", "rank"),
        ("scancel: error: Kill job error on job id 221: Access/permission denied", "--account"),
    ],
)
def test_a_line_of_anybody_is_not_told_as_one_of_a_certain_program(line: str, said: str) -> None:
    verdict = _of(f"{line}\n")
    assert said not in verdict.what["en"] + verdict.remedy["en"]


@pytest.mark.parametrize(
    "line",
    [
        "Training loop device: npu:0",
        "Please mount volumes with -v before starting",
        "Using default credentials for the registry",
        "INFO batch response: 200 OK",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "slurmstepd: error: task/cgroup: unable to add task[pid=33] to memory cg '(null)'",
        "n1:12:40 [0] NCCL WARN socketStartConnect: Connect to 10.1.0.1<40211> failed : Connection refused",
        "[88.1] nfs: server 10.0.0.2 not responding, still trying",
        "[88.1] INFO: task jbd2/sda1-8:331 blocked for more than 120 seconds.",
    ],
)
def test_what_passed_loses_to_the_exception_below(line: str) -> None:
    assert _of(f"{line}\n{_KEY}").cause == "key-missing"
