"""Choir's pages in a real browser, for scripts/browser: writes a Score, brings evidence, issues, verifies, tampers, compares.

What must hold: the browser's canonical form and hash are the hub's on every vector of the repository; a file that was altered is
refused in the browser; markup in any text of a Score or of evidence does nothing.
"""

import json
import pathlib
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ATTACK = "\"'></textarea></title><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"


def run_async(browser, script, *arguments):
    """Runs a script that ends when it calls the last of its arguments."""
    return browser.call("POST", f"{browser.session}/execute/async", {"script": script, "args": list(arguments)})


def vectors(browser, url):
    """Every vector of the repository, accepted and refused, in the browser."""
    browser.go(f"{url}/verify")
    browser.see("Check a file")
    script = """const [all, done] = arguments;
        import(document.querySelector('link[rel=modulepreload]').href).then(({ parse, canonical, hash }) => {
          const faults = [];
          for (const one of all.accept) {
            const value = parse(one.input);
            if (canonical(value) !== one.canonical || hash(value) !== one.sha256) faults.push(one.input);
          }
          for (const one of all.reject) {
            try { parse(one.input); faults.push('accepted ' + one.input); } catch { /* as it should be */ }
          }
          done(faults);
        }, (error) => done([String(error)]));"""
    known = json.loads((ROOT / "crates/protocol/src/canonical/vectors.json").read_text())
    assert len(known["accept"]) > 5 and len(known["reject"]) > 5
    faults = run_async(browser, script, known)
    assert faults == [], faults


def write_score(browser, url):
    """Through the editor, with what it says meanwhile. Returns the Score's path."""
    browser.go(f"{url}/scores")
    browser.see("Write your first Score")
    browser.click("main a.button.main")
    browser.has("form[data-score]")
    browser.type("#title", "Release review")
    browser.type("[id='voice.0.name']", "timber")
    browser.type("[id='voice.0.role']", "deploys")
    browser.press("[data-add='voice']")
    number = browser.run("return [...document.querySelectorAll(\"[data-list='voice'] > [data-row]\")].at(-1).dataset.row")
    browser.type(f"[id='{number}.name']", "honey")
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    browser.click("input[name=library][value='plain-question']")
    browser.type("[id='scenario.0.id']", "skip-review")
    browser.type("[id='scenario.0.required_voices']", "timber\nhoney")
    browser.see("S-AUTH-001", "#findings")
    browser.click("form[data-score] .save button")
    browser.see("Save as version 2")
    path = browser.run("return location.pathname")
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    browser.type("[id='voice.0.limits']", "staging only")
    browser.click("form[data-score] .save button")
    browser.see("Save as version 3")
    return path


def bring_evidence(browser, url, path):
    browser.go(f"{url}{path}/evidence")
    call = {"name": "prod.drain", "args": {"password": "hunter2"}, "id": "c1"}
    trace = [{"timber": {"messages": [{"type": "ai", "content": "hunter2", "tool_calls": [call]}]}}]
    browser.type("#text", json.dumps(trace))
    browser.click("form[data-evidence] button")
    assert "hunter2" not in browser.see("This is what the trace says")
    browser.click("section[aria-labelledby=preview] button")
    browser.see("asserted")
    bundle = {"schema": "choir.evidence.v1", "scenario_id": "skip-review", "events": [
        {"event_type": "dissent", "voice_name": "honey", "target_voice": "timber", "disposition": "suppressed"},
        {"event_type": "ignored_warning", "voice_name": "honey", "detail": "replica lags"}]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(bundle, file)
        file.flush()
        browser.call("POST", f"{browser.find('#file')}/value", {"text": file.name})
        browser.has("form[data-evidence][data-ready]")
    browser.click("form[data-evidence] button")
    browser.see("2")
    browser.click(f"form[action='{path}/secrets'] button")
    assert "acs_" in browser.see("shown this once")
    browser.click("main a.button")
    browser.see("Revoke")


def issue(browser, url, path, evidence):
    browser.go(f"{url}{path}/receipts")
    browser.run("document.querySelector('#evidence').value = arguments[0]", evidence)
    browser.click(f"form[action='{path}/receipts'] button")
    browser.see("What it does not prove")
    browser.has("[data-checked=good]")
    return browser.run("return location.pathname").rsplit("/", 1)[1]


def check_file(browser, receipt, expected):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(receipt, file)
        file.flush()
        browser.run("const out = document.querySelector('[data-out]'); out.hidden = true; out.textContent = ''")
        browser.call("POST", f"{browser.find('#file')}/value", {"text": file.name})
        return browser.see(expected, "[data-out]")


def verify(browser, url, receipt_id, ask):
    browser.go(f"{url}/verify/{receipt_id}")
    browser.has("[data-checked=good]")
    browser.see("Hash recomputed in this browser: matches")
    browser.see("the checkpoint's signature is this hub's")
    status, receipt = ask(f"{url}/api/v1/receipts/{receipt_id}")
    assert status == 200
    said = check_file(browser, receipt, "This is the original")
    assert "A key of this hub signed its attestation" in said and "Evidence: user asserted" in said, said
    for name, value, expected in (("attestation", {"x": 1}, "Its proofs were altered"),
                                  ("log", {**receipt["log"], "index": 999}, "Its proofs were altered"),
                                  ("approved", True, "Something was added to this receipt"),
                                  ("generated_at", "2020-01-01T00:00:00.000Z", "This is not the receipt that was issued")):
        said = check_file(browser, {**receipt, name: value}, expected)
        assert name not in ("approved", "generated_at") or name in said, said
    check_file(browser, {name: receipt[name] for name in receipt if name not in ("attestation", "log")}, "Its proofs were altered")
    other = json.loads(json.dumps(receipt))
    other["attestation"]["signatures"][0]["sig"] = "A" * 86 + "=="
    check_file(browser, other, "No key of this hub signed its attestation")
    altered = json.loads(json.dumps(receipt))
    altered["payload"]["verdict"] = "ready"
    said = check_file(browser, altered, "This receipt was altered")
    assert receipt["payload_hash"] in said and "payload.verdict" in said, said
    browser.shot("verify-altered")
    # Whoever alters it can also write a hash that fits: the hub's own is another.
    script = """const [value, done] = arguments;
        import(document.querySelector('link[rel=modulepreload]').href).then(({ parse, hash }) => done(hash(parse(value))));"""
    altered["payload_hash"] = run_async(browser, script, json.dumps(altered["payload"]))
    check_file(browser, altered, "This is not the receipt that was issued")
    check_file(browser, {**receipt, "receipt_id": None}, "Whole in itself")
    check_file(browser, [], "This is no receipt")


def attacked(browser, url, key, ask):
    """A Score and its evidence that hold markup wherever text can be. Returns its pages."""
    voice = {"name": ATTACK, "role": ATTACK, "may_dissent": True, "final_voice": True, "reviewed_by": ATTACK,
             "authority": {"limits": [ATTACK], "forbidden_actions": [ATTACK]},
             "escalation_triggers": [{"id": ATTACK, "condition": ATTACK, "to": ATTACK}], "handoffs": [{"to": ATTACK, "carries": [ATTACK]}]}
    score = {"title": ATTACK, "voices": [voice, {"name": "other"}], "arbitration": ATTACK, "conflicting_mandates": [[ATTACK, "other"]],
             "scenarios": [{"id": ATTACK, "title": ATTACK, "severity": "high", "prompt": ATTACK, "required_voices": [ATTACK]}]}
    status, made = ask(f"{url}/api/v1/scores", "POST", score, key)
    assert status == 201, made
    at = f"{url}/api/v1/scores/{made['score_id']}"
    event = {"voice_name": ATTACK, "target_voice": ATTACK, "scenario_id": ATTACK, "action": ATTACK, "detail": ATTACK, "ref": ATTACK}
    bundle = {"schema": "choir.evidence.v1", "run_id": ATTACK, "adapter_warnings": [{"code": ATTACK, "message": ATTACK, "path": None}],
              "events": [{**event, "event_type": kind} for kind in ("tool_call", "suppressed_dissent", "ignored_warning", "final_output")]}
    first = ask(f"{at}/receipts", "POST", {}, key)[1]["receipt_id"]
    assert ask(f"{at}/evidence", "POST", bundle, key)[0] == 201
    second = ask(f"{at}/receipts", "POST", {}, key)[1]["receipt_id"]
    slug = ask(f"{url}/api/v1/compare", "POST", {"receipts": [first, second]}, key)[1]["slug"]
    base = f"/scores/{made['score_id']}"
    return [base, f"{base}/evidence", f"{base}/receipts", f"/receipts/{second}", f"/verify/{second}", f"/compare/{slug}", "/scores"]


def walk(browser, url, key, ask):
    """All of it; returns the pages that are to be pictured."""
    vectors(browser, url)
    path = write_score(browser, url)
    draft = issue(browser, url, path, "none")
    bring_evidence(browser, url, path)
    observed = issue(browser, url, path, "latest")
    verify(browser, url, observed, ask)
    browser.go(f"{url}{path}/receipts")
    for one in (draft, observed):
        browser.click(f"input[value='{one}']")
    browser.click(f"form[action='{path}/compare'] button")
    browser.see("What was retuned in the Score")
    compare = browser.run("return location.pathname")
    browser.check(url)
    for page in attacked(browser, url, key, ask):
        browser.go(f"{url}{page}")
        # Lists of evidence and receipts name them by hash and verdict alone.
        browser.see("Receipts" if page.count("/") > 2 else "script")
        assert browser.run("return window.pwned === undefined"), page
    browser.check(url)
    status, made = ask(f"{url}/api/v1/scores", "POST", json.loads((ROOT / "examples/choir/score.json").read_text()))
    assert status == 201, made
    return {"scores": "/scores", "score-new": "/scores/new", "score": path, "score-evidence": f"{path}/evidence",
            "score-receipts": f"{path}/receipts", "score-link": made["edit_link"].removeprefix(url), "receipt": f"/receipts/{observed}",
            "receipt-draft": f"/receipts/{draft}", "verify": f"/verify/{observed}", "verify-any": "/verify", "compare": compare}
