"""A stand-in for the Hugging Face Hub on loopback: as much of its API as an upload of small files asks for."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hub:
    """The server. `files` is what was committed, by path; `refuse` is a status that every request gets instead."""

    def __init__(self):
        self.files, self.repos, self.tokens, self.refuse = {}, [], set(), None
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                hub.tokens.add(self.headers.get("authorization"))
                if hub.refuse:
                    return self.answer({"error": "no"}, hub.refuse)
                path = self.path.partition("?")[0]
                if path == "/api/repos/create":
                    asked = json.loads(body)
                    hub.repos.append(asked)
                    name = f"{asked.get('organization', 'me')}/{asked['name']}"
                    return self.answer({"url": f"{hub.url}/datasets/{name}", "name": name, "id": name})
                if path.endswith("/validate-yaml") or path == "/api/validate-yaml":
                    return self.answer({"errors": [], "warnings": []})
                if "/preupload/" in path:
                    files = json.loads(body)["files"]
                    return self.answer(
                        {
                            "files": [
                                {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files
                            ]
                        }
                    )
                if "/commit/" in path:
                    for line in body.splitlines():
                        each = json.loads(line)
                        if each["key"] == "file":
                            hub.files[each["value"]["path"]] = base64.b64decode(each["value"]["content"])
                    return self.answer(
                        {
                            "commitUrl": f"{hub.url}/datasets/me/run/commit/1",
                            "commitOid": "1" * 40,
                            "pullRequestUrl": None,
                        }
                    )
                return self.answer({"error": path}, 404)

            def do_GET(self):
                self.answer({"id": "me/run", "sha": "0" * 40, "siblings": []})

            def answer(self, data, status=200):
                payload = json.dumps(data).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
