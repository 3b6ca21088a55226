"""What scripts/schemathesis knows of the hub beyond its document: who is registered, and which host is its own."""

import os
import re
import string

import schemathesis
from hypothesis import strategies as st

# The agent whose key is used, by its name and its id, and one whose endpoint cannot be reached.
AGENT, AGENT_ID, ENDPOINT_AGENT = os.environ["CHORUS_TEST_AGENTS"].split()
# The channel it is in.
CHANNEL = os.environ["CHORUS_TEST_CHANNEL"]
MAY_LEAVE = os.environ.get("CHORUS_TEST_MAY_LEAVE") == "yes"
MEDIA_TYPE = "application/vnd.chorus.envelope+json"

# Endpoints. The name never resolves (RFC 6761): nobody is ever called.
NOWHERE = "host.invalid/"
PATH = st.text(string.ascii_letters + string.digits + "./?%-_")
schemathesis.openapi.format("uri", st.builds(f"https://{NOWHERE}{{}}".format, PATH))


@schemathesis.serializer("application/x-ndjson")
def ndjson(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    if path in ("/mcp", "/mcp/{channel}"):
        mcp(case)
    if path == "/api/v1/channels/{id}/events" and case.query and "before" in case.query:
        case.query.pop("after", None)
    if case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        if path in ("/register", "/agents"):
            registration(case.body)
        elif path == "/messages":
            message(case.body)
        for name in ("connection_string", "endpoint"):
            if path.startswith("/api/v1/agents") and isinstance(case.body.get(name), str):
                # Strings that this hub issued are learned from its answers, and are no agent's own.
                case.body[name] = re.sub("(/sk_)(.)", lambda found: found[1] + ("1" if found[2] == "0" else "0"), nowhere(case.body[name]))
        if path.startswith("/api/v1/"):
            own_api(case.method.upper(), path, case.body)
    if path == "/agents/{id}" and case.method.upper() == "DELETE":
        name = str(case.path_parameters["id"])
        if MAY_LEAVE and case.meta.generation.mode.is_positive:
            case.path_parameters["id"] = AGENT
        elif name.split("@")[0].lower() in (AGENT, ENDPOINT_AGENT) or name == AGENT_ID:
            case.path_parameters["id"] = "somebody"


def mcp(case):
    """No document can say what a method takes, and which session is open: a valid message is one that opens a session. In
    a channel of the caller's all is looked at that in others is not."""
    case.path_parameters["channel"] = CHANNEL
    if case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        case.body |= {"id": len(case.body), "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
        case.headers.pop("MCP-Protocol-Version", None)


def own_api(method, path, body):
    """What must be there if something else is not, which no document can say."""
    if method == "PATCH" and path == "/api/v1/channels/{id}" and all(body.get(name) is None for name in ("name", "context", "history")):
        body["name"] = "somewhere"
    if method == "POST" and path == "/api/v1/agents":
        body["name"] = free_name(body["name"])
    if method == "POST" and path == "/api/v1/channels/{id}/members":
        body.pop("account", None)
        body["agent"] = AGENT
    if path == "/api/v1/deliveries/replay":
        for name in ("since", "until"):
            if body.get(name) == "":
                del body[name]


def registration(body):
    """No document can say which host is ours, how long a name may be with it, and which hosts are of a private network."""
    name, _, host = body["agent_id"].partition("@")
    body["agent_id"] = free_name(name) + ("@chorus" if host else "")
    if isinstance(body.get("endpoint"), str):
        body["endpoint"] = nowhere(body["endpoint"])


def free_name(name):
    """A name that may be registered: nobody else's, and not in the form of an id, such as the ids that answers contain."""
    name = name[:100]
    if re.search("[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}", name):
        return "somebody"
    return "somebody" if name.lower() in (AGENT, ENDPOINT_AGENT) or not name.strip(".") else name


def nowhere(url):
    """The same address, as long as it was, of a host that is of no private network and nobody's."""
    scheme, rest = url.split("://", 1)
    return f"{scheme}://{NOWHERE}{rest[len(NOWHERE):]}"


def message(body):
    """No document can say who is registered: the sender is, and receivers with an inbox, with an endpoint, or not at all."""
    envelope = body["envelope"]
    if "chorus_version" not in envelope:
        envelope = next(part["data"] for part in envelope["parts"] if MEDIA_TYPE in str(part) and "data" in part)
    envelope["sender_id"] = AGENT
    body["receiver_id"] = [AGENT, ENDPOINT_AGENT, body["receiver_id"]][len(envelope["original_text"]) % 3]
