"""Runs the examples of a document and compares what they print with what it says.

A ```console block holds commands after "$ " and their output, standard output and standard error together. "…" stands for
anything within a line; a line that is only "…" stands for any number of lines. All blocks run in one shell.
"""

import re
import subprocess


def read(text, kind="console"):
    """Yields the commands of all blocks of this kind, with the lines that they print."""
    for block in re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S):
        command, expected = None, []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command is not None:
                    yield command, expected
                command, expected = line[2:], []
            else:
                expected.append(line)
        if command is not None:
            yield command, expected


def matches(expected, printed):
    pattern = "".join(
        "(?:.*\n)*" if line == "…" else re.escape(line).replace("…", "[^\n]*") + "\n" for line in expected
    )
    return re.fullmatch(pattern, printed) is not None


def run_script(script, folder, environment):
    """Returns what the script printed, up to where it was after two minutes."""
    try:
        return subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{script}"], cwd=folder, env=environment,
            stdout=subprocess.PIPE, text=True, timeout=120,
        ).stdout
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace")


def run(document, examples, folder, environment, actual):
    """Returns the number of examples that failed. `actual` has the real address for each one that the document names."""

    def replaced(text, pairs):
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    script = "".join(
        f"{replaced(command, actual.items())}\nprintf '\\n=== %s %s\\n' {n} $?\n"
        for n, (command, _) in enumerate(examples)
    )
    printed = re.split(r"\n=== \d+ (\d+)\n", run_script(script, folder, environment))
    failed = 0
    for n, (command, expected) in enumerate(examples):
        output = printed[2 * n] if 2 * n < len(printed) else "(it was not reached)"
        status = printed[2 * n + 1] if 2 * n + 1 < len(printed) else "?"
        output = replaced(output, [(real, named) for named, real in actual.items()])
        if output and not output.endswith("\n"):
            output += "\n"
        if status != "0" or not matches(expected, output):
            failed += 1
            print(f"{document}: $ {command}\nexit {status}, printed:\n{output}expected:\n" + "\n".join(expected) + "\n")
    print(f"{document}: {len(examples) - failed} passed, {failed} failed")
    return failed
