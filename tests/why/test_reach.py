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
