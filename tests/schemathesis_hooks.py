"""What the document can't say, for valid requests only: conditions between
parameters, and ids of things that exist, so that more than 404 is seen. Of requests
that are wrong on purpose only the right parts of the path are filled in, and the
Idempotency-Key."""

import itertools
import os
import re
import time

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation

BASE, KEY = os.environ["REFOLD_BASE"], {"X-API-Key": os.environ["REFOLD_KEY"]}
KNOWLEDGE = re.compile(r"^/api/v1/(knowledge|chunk|faq)")
shared = {}
counter = itertools.count(1)


def call(method, path, **kwargs):
    """What the server answers as data; None if there is no such thing."""
    answer = requests.request(method, BASE + "/api/v1/" + path, headers=KEY, timeout=20, **kwargs)
    if answer.status_code == 404:
        return None
    answer.raise_for_status()
    return answer.json().get("data")


def fresh(text=""):
    """A text unlike any other of this run."""
    return f"{text} {next(counter)}".strip()


def world():
    """A session with a run and an attachment."""
    url = BASE + "/api/v1/"
    session = requests.post(url + "sessions", json={"title": "t"}, headers=KEY, timeout=20).json()["data"]["id"]
    chat = requests.post(url + "agent-chat/" + session, json={"query": "q"}, headers=KEY, timeout=20)
    file = requests.post(url + f"sessions/{session}/attachments", files={"file": ("a.txt", b"text")}, headers=KEY, timeout=20)
    return {"session": session, "run": chat.headers["X-Refold-Run"], "message": chat.headers["X-Refold-Message"],
            "attachment": file.json()["data"]["id"], "agent": "builtin-smart-reasoning", "tenant": "1", "view": "sessions"}


class Library:
    """A base with a tag, a document that is indexed and its chunk; an FAQ base with a
    tag, an entry and an import. What a request may have used up is looked for before
    it is named again, and made again if it is gone."""

    def __init__(self):
        self.known, self.sure = {}, set()

    def get(self, name, there, make):
        if name not in self.sure:
            if name not in self.known or not there(self.known[name]):
                self.known[name] = make()
            self.sure.add(name)
        return self.known[name]

    def base(self, kind="document", name="base"):
        return self.get(f"{name} {kind}", lambda id: call("GET", "knowledge-bases/" + id),
                        lambda: call("POST", "knowledge-bases", json={"name": fresh(name), "type": kind})["id"])

    def tag(self, kind="document"):
        tags = f"knowledge-bases/{self.base(kind)}/tags"
        return self.get("tag " + kind, lambda tag: any(t["id"] == tag["id"] for t in call("GET", tags, params={"page_size": 1000})["data"]),
                        lambda: call("POST", tags, json={"name": fresh("tag")}))

    def typed(self):
        """Adds a typed document that is published."""
        text = {"title": "t", "content": "words of a document", "status": "publish"}
        return call("POST", f"knowledge-bases/{self.base()}/knowledge/manual", json=text)["id"]

    def document(self, name="document"):
        return self.get(name, lambda id: call("GET", "knowledge/" + id), self.typed)

    def chunk(self):
        """A document that is indexed, and a chunk of it."""
        self.base()
        return self.get("chunk", lambda ids: call("GET", "knowledge/" + ids[0]) and call("GET", "chunks/by-id/" + ids[1]), self.indexed)

    def indexed(self):
        document, until = self.typed(), time.time() + 120  # what was added before it comes first
        while call("GET", "knowledge/" + document)["parse_status"] != "completed":
            if time.time() > until:
                raise TimeoutError("a document is not indexed")
            time.sleep(0.05)
        return document, call("GET", "chunks/" + document)[0]["id"]

    def entry(self):
        entries = f"knowledge-bases/{self.base('faq')}/faq/"
        return self.get("entry", lambda number: call("GET", f"{entries}entries/{number}"),
                        lambda: call("POST", entries + "entry", json={"standard_question": fresh("question"), "answers": ["a"]})["id"])

    def copying(self):
        base = self.base(name="small")
        return self.get("copying", lambda id: call("GET", "knowledge-bases/copy/progress/" + id),
                        lambda: call("POST", "knowledge-bases/copy", json={"source_id": base})["task_id"])

    def moving(self):
        return self.get("moving", lambda id: call("GET", "knowledge/move/progress/" + id), self.move)

    def move(self):
        body = {"knowledge_ids": [self.chunk()[0]], "source_kb_id": self.base(), "target_kb_id": self.base(name="target"), "mode": "reparse"}
        self.known.pop("chunk"), self.sure.discard("chunk")
        return call("POST", "knowledge/move", json=body)["task_id"]

    def task(self):
        rows = [{"standard_question": fresh("imported"), "answers": ["a"]}]
        base = self.base("faq")
        return self.get("task", lambda id: call("GET", "faq/import/progress/" + id),
                        lambda: call("POST", f"knowledge-bases/{base}/faq/entries", json={"entries": rows, "mode": "append"})["task_id"])


library = Library()


def number(value, otherwise):
    try:
        return int(value)
    except (TypeError, ValueError):
        return otherwise


def folder(path):
    """The path of a folder, another one if it can't be one."""
    plain = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", path).replace("\\", "/").split()).strip("/")
    parts = [p.strip() for p in plain.split("/")]
    if plain and (len(parts) > 16 or any(p in ("", ".", "..") or len(p) > 128 for p in parts)):
        return "a/b"
    return path


def known_path(path):
    """Ids of things that exist for the parameters of a path."""
    route = path.removeprefix("/api/v1/")
    kind = "faq" if "/faq/" in route else "document"
    out = {"base": lambda: library.base(kind), "entry": lambda: str(library.entry()), "tag": lambda: library.tag(kind)["id"],
           "document": lambda: library.document("rewritten" if "/manual/" in route else "document"), "chunk": lambda: library.chunk()[1]}
    if path.endswith("/knowledge-bases/{base}"):  # what is tried on it must not count elsewhere
        out["base"] = lambda: library.base(name="changed")
    if "/progress/" in route:
        out["task"] = library.copying if "/copy/" in route else library.moving if "/move/" in route else library.task
    if route.startswith("chunks/"):
        out["document"] = lambda: library.chunk()[0]
    return {name: out[name]() for name in re.findall(r"{(\w+)}", route) if name in out}


def suits(case):
    """Whether what a chain of requests has come to is of the kind that the route is for."""
    path, ids = case.operation.path, case.path_parameters
    if "base" in ids and ("/faq/" in path or "/knowledge/" in path):
        found = call("GET", "knowledge-bases/" + requests.utils.quote(ids["base"], safe=""))
        return found is None or (found["type"] == "faq") == ("/faq/" in path)
    if "document" in ids:
        found = call("GET", "knowledge/" + requests.utils.quote(ids["document"], safe=""))
        return found is None or found["type"] == "manual" and found["parse_status"] != "draft"
    return True


def repair(path, query, body):
    """Makes a valid request about knowledge one that can be done."""
    if isinstance(query.get("folder_path"), str):
        query["folder_path"] = folder(query["folder_path"])
    if path.endswith("/knowledge/batch"):
        query["ids"] = library.document()
    if path.endswith("/knowledge/search") and query.get("recent") != "true":
        query["keyword"], query["query"] = (query.get("keyword", "") + "w")[:100], query.get("query", "")[:100]
    if not isinstance(body, dict):
        return
    for config in (body.get("chunking_config"), (body.get("process_config") or {}).get("chunking_config"), (body.get("config") or {}).get("chunking_config")):
        if isinstance(config, dict) and (config.get("chunk_overlap") or 0) >= (config.get("chunk_size") or 512):
            config["chunk_overlap"] = 0
    for name in ("folder_path", "from", "to"):
        if isinstance(body.get(name), str):
            body[name] = folder(body[name])
    if path.endswith("/folders"):  # not blank, and not into itself
        body["from"] = "x" + body["from"][:1000].strip(" /\\.")
        body["from"], body["to"] = folder(body["from"]), None if str(body.get("to")).startswith("x") else body.get("to")
    if path.endswith("/knowledge-bases/{base}") and isinstance(body.get("config"), dict):
        body["config"].pop("faq_config", None)  # of bases of type faq
    if path.endswith("/knowledge/url"):
        body["url"] = f"https://example.com/{next(counter)}"
        if body.get("file_name") or body.get("file_type"):
            body["file_type"] = "md"
    if path.endswith("/tags") or path.endswith("/tags/{tag}"):
        if isinstance(body.get("name"), str):
            body["name"] = fresh(body["name"][:100])
    if path.endswith("-search") or path.endswith("/faq/search"):
        sources(path, body)
    if "standard_question" in body:
        body["standard_question"] = fresh(body["standard_question"][:900])
        body.pop("similar_questions", None)  # no other entry may ask them
        body.pop("id", None)
    if "similar_questions" in body:
        body["similar_questions"] = [fresh(q[:900]) if q else q for q in body["similar_questions"]][:2]
        library.known.pop("entry", None)  # an entry takes some only
        library.sure.discard("entry")
    if body.get("tag_id"):
        body["tag_id"] = library.tag("faq")["seq_id"]
    if body.get("tag_ids") and not path.endswith("-search"):
        body["tag_ids"] = [library.tag()["id"]]
    for name in ("by_id", "by_tag", "updates"):
        if body.get(name) and "/faq/" in path:
            to = str(library.tag("faq")["seq_id"] if name == "by_tag" else library.entry())
            body[name] = {to: next(iter(body[name].values()))}
            if isinstance(body[name][to], dict):
                body[name][to].pop("tag_id", None)
    if "kb_id" in body and "task_id" not in body:
        body["kb_id"] = library.base()
        for name in ("ids", "knowledge_ids"):
            if name in body:
                body[name] = [library.document(), *body[name][1:]]
    for name, kind in (("source_id", "small"), ("source_kb_id", "base"), ("target_id", "target"), ("target_kb_id", "target")):
        if body.get(name):
            body[name] = library.base(name=kind)
    if "source_kb_id" in body:
        body["knowledge_ids"] = [library.chunk()[0]]
    if body.get("updates") and path.endswith("/knowledge/tags"):
        body["updates"] = {library.document(): [library.tag()["id"]]}
    if "task_id" in body:
        body["task_id"] = fresh("task").replace(" ", "-")
    if "ids" in body and "/faq/" in path:
        body["ids"] = [library.entry()]


def sources(path, body):
    """What a search is to look in: a base, its document, a tag."""
    document, tag = library.document, lambda: library.tag()["id"]
    body.pop("query_embedding", None)  # its length depends on the model
    for name, id in (("knowledge_base_ids", library.base), ("knowledge_ids", document), ("tag_ids", tag), ("scope_tag_ids", tag)):
        if body.get(name):
            body[name] = [id()]
    if body.get("knowledge_base_id"):
        body["knowledge_base_id"] = library.base()
    for item in body.get("mentioned_items") or []:
        if item and item.get("type") in ("kb", "file", "tag"):
            item["id"], item["kb_id"] = {"kb": library.base, "file": document, "tag": tag}[item["type"]](), library.base()
    if body.get("tag_ids") and not path.endswith("/hybrid-search"):  # they belong to one base
        body["knowledge_base_ids"] = [library.base()]


def upload(body):
    """A file that can be read, with fields that are what they should be."""
    out = {"file": fresh("text").encode(), "fileName": fresh() + ".md"}
    if isinstance(body.get("folder_path"), str):
        out["folder_path"] = folder(body["folder_path"])
    return out


@schemathesis.hook
def after_call(context, case, response):
    path = case.operation.path
    if KNOWLEDGE.match(path) and case.method.upper() != "GET" and response.status_code < 300 and not path.endswith(("search", "preview", "{session}")):
        library.sure.clear()


@schemathesis.hook
def before_call(context, case, kwargs):
    if not case.meta:
        return
    if case.headers.get("Idempotency-Key") and not case.meta.is_negative_at(ParameterLocation.HEADER):
        case.headers["Idempotency-Key"] = fresh("key").replace(" ", "-")  # with the same one it would be the same request
    about, positive = bool(KNOWLEDGE.match(case.operation.path)), case.meta.generation.mode.is_positive
    stateful = case.meta.phase.name.value == "stateful"
    if about and case.path_parameters and not case.meta.is_negative_at(ParameterLocation.PATH):
        if "session" not in case.path_parameters and (not stateful or positive and not suits(case)):
            case.path_parameters.update(known_path(case.operation.path))
    if not positive:
        return
    query, path, body = case.query, case.path_parameters, case.body
    if about and case.headers.get("X-Tenant-ID"):
        case.headers["X-Tenant-ID"] = "1"
    if query.get("page") is not None and (number(query["page"], 1) - 1) * (number(query.get("page_size"), 20) or 20) > 1_000_000:  # 0 is 20
        query["page"] = 2
    if case.operation.path.endswith("/usage") and (query.get("from") or query.get("to")):
        days = [query.get("from") or query.get("to"), query.get("to") or query.get("from")]
        query["from"], query["to"] = sorted(days)
    if isinstance(body, dict):
        if number(body.get("expires_at_unix"), None) is not None and body["expires_at_unix"] < time.time() + 600:
            body["expires_at_unix"] = int(time.time()) + 600
        for name in ("images", "attachment_uploads", "attachment_ids"):  # what is in them counts
            body.pop(name, None)
        if "-chat/{session}" in case.operation.path:
            body["agent_id"] = "builtin-smart-reasoning"
            if body.get("summary_model_id"):
                body["summary_model_id"] = "extractive"
            sources(case.operation.path, body)
    if case.operation.path.endswith("/attachments") and isinstance(body, dict) and "file" in body:
        case.body = {"file": b"text"}
    if about and case.operation.path.endswith("/knowledge/file"):
        case.body = upload(body)
    elif about:
        repair(case.operation.path, query, body)
    if stateful or not path:
        return
    known = world() if case.method.upper() == "DELETE" and not about or not shared else shared
    if not shared:
        shared.update(world())
    for name in path:
        if name in known:
            path[name] = known[name]
    if "message_id" in query:
        query["message_id"] = known["run"]
    if isinstance(body, dict) and "message_id" in body:
        body["message_id"] = known["run"]
