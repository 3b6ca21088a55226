// Canonicalise, sign and submit an evidence bundle, with nothing but Node.
//
// Usage: CHORUS_SIGNING_SECRET=acs_… submit.mts BUNDLE.json INGEST_URL
//        submit.mts --canonicalize FILE.json

import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** RFC 8785: JSON.stringify spells numbers and texts as it wants them, and sort() orders as UTF-16 does. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${members.join(",")}}`;
}

export function headers(secret: string, body: string, timestamp: number): Record<string, string> {
  return {
    "Content-Type": "application/json",
    "X-Agentic-Choir-Signature": createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex"),
    "X-Agentic-Choir-Timestamp": String(timestamp),
    "X-Agentic-Choir-Secret-Prefix": secret.slice(0, 12),
  };
}

async function main([first, second]: string[]): Promise<void> {
  const file = first === "--canonicalize" ? second : first;
  const body = canonical(JSON.parse(readFileSync(file, "utf8")) as Json);
  if (first === "--canonicalize") {
    process.stdout.write(body);
    return;
  }
  const secret = process.env.CHORUS_SIGNING_SECRET;
  if (!secret) throw new Error("CHORUS_SIGNING_SECRET is not set");
  const signed = headers(secret, body, Math.floor(Date.now() / 1000));
  const answer = await fetch(second, { method: "POST", headers: signed, body });
  console.log(answer.status, await answer.text());
  if (!answer.ok) process.exitCode = 1;
}

await main(process.argv.slice(2));
