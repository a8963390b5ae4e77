"""What scripts do with the vendor's client of OBS: a program of its own, as text."""

WALK = r"""
import os
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request

from obs import CompleteMultipartUploadRequest, CompletePart, DeleteObjectsRequest, GetObjectHeader
from obs import Object, ObsClient, PutObjectHeader

bucket, part_mb, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PART = part_mb << 20


def client_of(ak, sk):
    # A failed request is not tried again: what is checked is the first answer.
    server = os.environ["OBS"]
    return ObsClient(access_key_id=ak, secret_access_key=sk, server=server, max_retry_count=0)


client = client_of(os.environ["AK"], os.environ["SK"])
stranger = client_of(os.environ["AK"], "x" * 40)
nobody = ObsClient(server=os.environ["OBS"])


def good(answer):
    assert answer.status < 300, (answer.status, answer.errorCode, answer.errorMessage)
    return answer.body


def refused(answer, *statuses):
    assert answer.status in statuses, (answer.status, answer.errorCode, answer.errorMessage)
    assert answer.errorCode, answer


def read(key, **more):
    return good(client.getObject(bucket, key, loadStreamInMemory=True, **more)).buffer or b""


good(client.createBucket(bucket))
good(client.headBucket(bucket))
assert bucket in [one.name for one in good(client.listBuckets()).buckets]

# put, get, ranges, metadata
names = ["a b.txt", "plus+and&.txt", "名/字.txt", "deep/1", "deep/2", "deep/3", "empty"]
for name in names:
    text = "" if name == "empty" else f"this is {name}"
    good(client.putContent(bucket, name, text))
    assert read(name).decode() == text
assert read("deep/1", headers=GetObjectHeader(range="5-6")) == b"is"
refused(client.getObject(bucket, "deep/1", headers=GetObjectHeader(range="99-100")), 416)
refused(client.getObject(bucket, "no such"), 404)
good(client.putContent(bucket, "meta", "x", metadata={"epoch": "7"},
                       headers=PutObjectHeader(contentType="text/plain")))
told = client.getObjectMetadata(bucket, "meta")
assert (good(told).contentLength, told.body.contentType) == (1, "text/plain"), told
assert dict(told.header).get("epoch") == "7", told.header
refused_head = client.getObjectMetadata(bucket, "no such")
assert refused_head.status == 404, refused_head.status

# list: all, pages, folders
found, marker = [], None
while True:
    page = good(client.listObjects(bucket, marker=marker, max_keys=3))
    found += [one.key for one in page.contents]
    if not page.is_truncated:
        break
    marker = page.next_marker or found[-1]
assert sorted(found) == sorted([*names, "meta"]), found
level = good(client.listObjects(bucket, delimiter="/"))
assert [one.prefix for one in level.commonPrefixs] == ["deep/", "名/"], level.commonPrefixs
below = good(client.listObjects(bucket, prefix="deep/"))
assert [one.key for one in below.contents] == ["deep/1", "deep/2", "deep/3"]

# copies
good(client.copyObject(bucket, "deep/1", bucket, "copy of 名"))
assert read("copy of 名") == b"this is deep/1"

# multipart by hand; one that is given up leaves nothing
block = os.urandom(1 << 20) * part_mb
upload = good(client.initiateMultipartUpload(bucket, "big")).uploadId
made = [
    CompletePart(partNum=n, etag=good(client.uploadPart(bucket, "big", n, upload, content)).etag)
    for n, content in ((1, block), (2, b"end"))
]
assert [one.partNumber for one in good(client.listParts(bucket, "big", upload)).parts] == [1, 2]
request = CompleteMultipartUploadRequest(parts=made)
good(client.completeMultipartUpload(bucket, "big", upload, request))
assert read("big", headers=GetObjectHeader(range=f"{PART - 1}-{PART + 2}")) == block[-1:] + b"end"
given_up = good(client.initiateMultipartUpload(bucket, "never")).uploadId
good(client.uploadPart(bucket, "never", 1, given_up, b"x"))
good(client.abortMultipartUpload(bucket, "never", given_up))
refused(client.getObject(bucket, "never"), 404)

# files, resumable both ways: a half of each is there when it is begun again
with tempfile.TemporaryDirectory() as folder:
    source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
    with open(source, "wb") as file:
        for number in range(parts):
            file.write(bytes([number % 251]) * PART)
    good(client.putFile(bucket, "whole", source))
    more = {"partSize": PART, "taskNum": 2, "enableCheckpoint": True}

    record = os.path.join(folder, "record")
    child = os.fork()
    if child == 0:
        # Ended in the middle, as a machine that is switched off.
        def stop_half_way(done, total, seconds):
            if done > total / 2:
                os._exit(7)

        client.uploadFile(bucket, "resumed", source, checkpointFile=record,
                          progressCallback=stop_half_way, **more)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    good(client.uploadFile(bucket, "resumed", source, checkpointFile=record, **more))
    good(client.downloadFile(bucket, "resumed", target, checkpointFile=record + "2", **more))
    with open(source, "rb") as one, open(target, "rb") as other:
        assert one.read() == other.read()
    assert good(client.getObjectMetadata(bucket, "whole")).contentLength == parts * PART

# links
unverified = ssl._create_unverified_context()


def fetch(link, data=None):
    method = "GET" if data is None else "PUT"
    request = urllib.request.Request(link.signedUrl, data, dict(link.actualSignedRequestHeaders),
                                     method=method)
    try:
        with urllib.request.urlopen(request, timeout=60, context=unverified) as got:
            return got.status, got.read()
    except urllib.error.HTTPError as error:
        return error.code, b""

link = client.createSignedUrl("GET", bucket, "deep/2", expires=300)
assert fetch(link) == (200, b"this is deep/2")
link.signedUrl = link.signedUrl.replace("deep/2", "deep/3")
assert fetch(link)[0] == 403
assert fetch(client.createSignedUrl("GET", bucket, "deep/2", expires=-1000))[0] == 403
link = client.createSignedUrl("PUT", bucket, "by link", expires=300, headers={"Content-Type": "a/b"})
assert fetch(link, b"linked")[0] == 200, link.signedUrl
assert read("by link") == b"linked"

# What the door does not do is refused, and nothing is changed by it.
refused(client.appendObject(bucket, "deep/1", {"content": "more", "position": 14}), 400, 403, 405, 501)
assert read("deep/1") == b"this is deep/1"

# wrong keys and none
for who in (stranger, nobody):
    refused(who.putContent(bucket, "evil", "x"), 401, 403)
    refused(who.getObject(bucket, "deep/1"), 401, 403)
refused(client.getObject(bucket, "evil"), 404)

# A member may do all but publish and delete buckets; an administrator may make them readable for all.
policy = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["*"]}, '
    '"Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::%s/*"]}]}' % bucket
)
member = client_of(os.environ["MEMBER_AK"], os.environ["MEMBER_SK"])
good(member.putContent(bucket, "by a member", "x"))
refused(member.setBucketPolicy(bucket, policy), 403)
refused(member.deleteBucket(bucket), 403)
good(client.setBucketPolicy(bucket, policy))
assert "GetObject" in good(client.getBucketPolicy(bucket)).policyJSON
until = time.monotonic() + 60
while nobody.getObject(bucket, "deep/1").status != 200:
    assert time.monotonic() < until
    time.sleep(0.1)
refused(nobody.putContent(bucket, "evil", "x"), 403)
refused(stranger.getObject(bucket, "deep/1"), 403)
good(client.deleteBucketPolicy(bucket))

# delete
good(client.deleteObject(bucket, "deep/1"))
refused(client.getObject(bucket, "deep/1"), 404)
gone = DeleteObjectsRequest(quiet=False, objects=[Object(key="deep/2"), Object(key="名/字.txt")])
assert {one.key for one in good(client.deleteObjects(bucket, gone)).deleted} == {"deep/2", "名/字.txt"}
refused(client.deleteBucket(bucket), 409)
left = [one.key for one in good(client.listObjects(bucket)).contents]
good(client.deleteObjects(bucket, DeleteObjectsRequest(objects=[Object(key=key) for key in left])))
good(client.deleteBucket(bucket))
assert client.headBucket(bucket).status == 404
print("walked")
"""
