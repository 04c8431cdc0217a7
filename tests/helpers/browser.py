"""Pages in a real browser that can reach no network."""

from __future__ import annotations

import html
import re
import subprocess
from urllib.parse import quote


def opened(chromium, page, tmp_path, where="", script=""):
    """The page's HTML once its scripts have run in a browser that can reach no network."""
    if script:
        # The policy lets no other script run, such as a test's.
        text = re.sub("<meta http-equiv=[^>]*>", "", page.read_text())
        text = text.replace("</body>", f"<script>{HELPERS}{script}}});</script></body>")
        page = tmp_path / "page.html"
        page.write_text(text)
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        "--window-size=1400,900",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=5000",
        f"--user-data-dir={tmp_path}/profile",
    ]
    url = "file://" + quote(str(page)) + where
    done = subprocess.run(
        [chromium, *flags, "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    body = re.sub(r"<script\b.*?</script>", "", done.stdout, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", body))


HELPERS = """
  const wait = (ms) => new Promise((done) => setTimeout(done, ms ?? 150));
  const press = async (key) => { document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})); await wait(); };
  const say = (text) => document.body.append(document.createElement('hr'), `[${text}]`);
  const fill = async (name, text, ms) => { form[name].value = text; form.oninput({target: form[name]}); await wait(ms); };
  addEventListener('load', async () => { await wait();
"""
