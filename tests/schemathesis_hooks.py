"""What the document can't say, for valid requests only: conditions between
parameters, and ids of things that exist, so that more than 404 is seen."""

import os
import time

import requests
import schemathesis

BASE, KEY = os.environ["REFOLD_BASE"], {"X-API-Key": os.environ["REFOLD_KEY"]}
shared = {}


def world():
    """A session with a run and an attachment."""
    url = BASE + "/api/v1/"
    session = requests.post(url + "sessions", json={"title": "t"}, headers=KEY, timeout=20).json()["data"]["id"]
    chat = requests.post(url + "agent-chat/" + session, json={"query": "q"}, headers=KEY, timeout=20)
    file = requests.post(url + f"sessions/{session}/attachments", files={"file": ("a.txt", b"text")}, headers=KEY, timeout=20)
    return {"session": session, "run": chat.headers["X-Refold-Run"], "message": chat.headers["X-Refold-Message"],
            "attachment": file.json()["data"]["id"], "agent": "builtin-smart-reasoning", "tenant": "1", "view": "sessions"}


def number(value, otherwise):
    try:
        return int(value)
    except (TypeError, ValueError):
        return otherwise


@schemathesis.hook
def before_call(context, case, kwargs):
    if not case.meta or not case.meta.generation.mode.is_positive:
        return
    query, path, body = case.query, case.path_parameters, case.body
    if query.get("page") is not None and (number(query["page"], 1) - 1) * number(query.get("page_size"), 20) > 1_000_000:
        query["page"] = 2
    if case.operation.path.endswith("/usage") and (query.get("from") or query.get("to")):
        days = [query.get("from") or query.get("to"), query.get("to") or query.get("from")]
        query["from"], query["to"] = sorted(days)
    if isinstance(body, dict):
        if number(body.get("expires_at_unix"), None) is not None and body["expires_at_unix"] < time.time() + 600:
            body["expires_at_unix"] = int(time.time()) + 600
        for name in ("images", "attachment_uploads", "attachment_ids"):  # what is in them counts
            body.pop(name, None)
        if case.operation.path.endswith("/agent-chat/{session}"):
            body["agent_id"] = "builtin-smart-reasoning"
    if case.operation.path.endswith("/attachments") and isinstance(body, dict) and "file" in body:
        case.body = {"file": b"text"}
    if case.meta.phase.name.value == "stateful" or not path:
        return
    known = world() if case.method.upper() == "DELETE" or not shared else shared
    if not shared:
        shared.update(world())
    for name in path:
        if name in known:
            path[name] = known[name]
    if "message_id" in query:
        query["message_id"] = known["run"]
    if isinstance(body, dict) and "message_id" in body:
        body["message_id"] = known["run"]
