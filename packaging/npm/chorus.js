#!/usr/bin/env node
// Starts the program, which a package of its own carries for each platform.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

function program() {
  const name = `@chorus-agent-hub/${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "chorus.exe" : "chorus";
  try {
    return require.resolve(`${name}/bin/${file}`);
  } catch {
    console.error(
      `chorus: the package ${name} is not installed. Either there is none for this platform, or optional ` +
        "dependencies were left out: install again without --omit=optional.",
    );
    process.exit(1);
  }
}

const found = program();
const given = process.argv.slice(2);

// In newer versions of Node the program takes the place of this one.
if (process.execve && process.platform !== "win32") {
  process.execve(found, ["chorus", ...given], process.env);
}

const child = spawn(found, given, { stdio: "inherit", argv0: "chorus" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    // A terminal tells the program itself. A second signal would end a hub at once.
    if (!(process.stdin.isTTY && signal !== "SIGTERM")) child.kill(signal);
  });
}
child.on("error", (error) => {
  console.error(`chorus: cannot start ${found}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
