"""Lists and reads the testbed with boto3, writes what it read into a directory, and prints what it
saw as JSON.

    boto3_client.py ENDPOINT SECRET DIRECTORY [TRUSTED_AUTHORITY]
"""

import json
import sys
import urllib.request
from pathlib import Path

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

endpoint, secret, directory = sys.argv[1:4]
trusted = sys.argv[4] if len(sys.argv) > 4 else None
out = Path(directory)
BUCKET = "testbed"


def client(key="testbed", secret=secret, **config):
    options = Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}, **config)
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=options,
        verify=trusted,
    )


def error(call, **arguments):
    try:
        call(**arguments)
    except ClientError as failure:
        return failure.response["Error"]["Code"]
    return "none"


def listed(operation):
    pages = s3.get_paginator(operation).paginate(Bucket=BUCKET)
    return sorted([entry["Key"], entry["Size"]] for page in pages for entry in page.get("Contents", []))


s3 = client()
rolled_up = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
seen = {
    "listed": listed("list_objects_v2"),
    "listed_v1": listed("list_objects"),
    "rolled_up": [entry["Key"] for entry in rolled_up["Contents"]]
    + [entry["Prefix"] for entry in rolled_up["CommonPrefixes"]],
    "buckets": [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]],
}

keys = ["empty", "one", "dir/a b+c&d=é", "dir/deep/er/file", "big", "dir/%41 is not A"]
for index, key in enumerate(keys):
    head = s3.head_object(Bucket=BUCKET, Key=key)
    whole = s3.get_object(Bucket=BUCKET, Key=key, IfMatch=head["ETag"])
    assert whole["ETag"] == head["ETag"] and whole["ContentLength"] == head["ContentLength"], key
    (out / f"whole-{index}").write_bytes(whole["Body"].read())

part = s3.get_object(Bucket=BUCKET, Key="big", Range="bytes=65000-2064999")
assert part["ContentRange"] == "bytes 65000-2064999/20000001", part["ContentRange"]
(out / "range").write_bytes(part["Body"].read())

if trusted is None:
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "big"})
    request = urllib.request.Request(url, headers={"Range": "bytes=100-199"})
    with urllib.request.urlopen(request) as response:
        (out / "presigned").write_bytes(response.read())

seen["errors"] = {
    "absent": error(s3.get_object, Bucket=BUCKET, Key="absent"),
    "beyond": error(s3.get_object, Bucket=BUCKET, Key="one", Range="bytes=1-2"),
    "changed": error(s3.get_object, Bucket=BUCKET, Key="one", IfMatch='"x"'),
    "no_bucket": error(s3.list_objects_v2, Bucket="elsewhere"),
    "wrong_secret": error(client(secret="wrong").get_object, Bucket=BUCKET, Key="one"),
    "wrong_key": error(client(key="wrong").get_object, Bucket=BUCKET, Key="one"),
    "unsigned": error(client(signature_version=UNSIGNED).get_object, Bucket=BUCKET, Key="one"),
}

stored = s3.put_object(Bucket=BUCKET, Key="new", Body=b"what was put")
read = s3.get_object(Bucket=BUCKET, Key="new")
s3.delete_object(Bucket=BUCKET, Key="new")
gone = error(s3.get_object, Bucket=BUCKET, Key="new")
seen["put"] = [
    read["Body"].read().decode(),
    stored["ETag"] == read["ETag"],
    "gone" if gone == "NoSuchKey" else gone,
]

print(json.dumps(seen))
