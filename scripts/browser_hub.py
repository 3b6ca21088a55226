"""What the walks through the pages ask of the hub itself: calls, waiting, and an agent's inbox."""

import json
import time
import urllib.error
import urllib.request


def ask(url, method="GET", body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=330) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def wait(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"it never came: {what}")


def entries(url, key):
    """The kind and the data of what comes into an inbox, until the hub is stopped."""
    request = urllib.request.Request(f"{url}/agent/inbox", headers={"authorization": f"Bearer {key}"})
    kind = None
    try:
        for line in urllib.request.urlopen(request):
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                yield kind, json.loads(line[6:])
    except OSError:
        pass  # The hub was stopped.
