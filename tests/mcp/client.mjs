// The official TypeScript client against a running hub, in one revision: URL KEY MODE(legacy or 2026-07-28) VERSION.

import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import Ajv from 'ajv/dist/2020.js';

const [url, key, mode, version] = process.argv.slice(2);
const slug = `typescript-${version}`;
const resource = `chorus://${url.split('/').at(-1)}/artifacts/${slug}`;

const versionNegotiation = { mode: mode === 'legacy' ? 'legacy' : { pin: mode } };
const client = new Client({ name: 'test', version: '1' }, { versionNegotiation });
const heard = [];
let wake = () => {};
for (const method of ['notifications/resources/updated', 'notifications/resources/list_changed']) {
  client.setNotificationHandler(method, notice => {
    heard.push([method, notice.params?.uri]);
    wake();
  });
}
await client.connect(
  new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } }),
);

async function tool(name, args = {}) {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(!result.isError, JSON.stringify(result));
  return result.structuredContent;
}

// Every schema is compiled in Ajv's strict mode, as careful clients do. The inspector's own check is scripts/mcp-inspector.
const ajv = new Ajv({ strict: true, allowUnionTypes: true });
const { tools } = await client.listTools();
assert.equal(tools.length, 15);
for (const { inputSchema, outputSchema } of tools) {
  ajv.compile(inputSchema);
  ajv.compile(outputSchema);
}
assert.match(client.getInstructions(), /@ben/);
assert.equal((await tool('get_roster')).you, 'ben');
const message = { content: 'hello from TypeScript', idempotency_key: `ts-${version}` };
const said = await tool('chat_send_message', message);
assert.deepEqual(await tool('chat_send_message', message), said);
const { events } = await tool('chat_list_events', { kind: 'message' });
assert.ok(events.some(event => event.event_id === said.event_id));
assert.deepEqual((await tool('wait_for_events', { wait_ms: 100 })).events, []);
const found = await tool('search', { query: 'typescript' });
assert.ok(found.events.length > 0);
const wrong = await client.callTool({ name: 'chat_react', arguments: { event_id: 'x', signal: 'seen' } });
assert.ok(wrong.isError);

await tool('artifact_create', { slug, content: 'one' });
const { resources } = await client.listResources();
assert.ok(resources.some(({ uri }) => uri === resource));
assert.equal((await client.readResource({ uri: resource })).contents[0].text, 'one');
const { messages } = await client.getPrompt({ name: 'participate', arguments: { task: 'Look around.' } });
assert.match(messages[0].content.text, /Look around\./);

const subscription = mode === 'legacy'
  ? await client.subscribeResource({ uri: resource })
  : await client.listen({ resourceSubscriptions: [resource] });
const updated = new Promise((resolve, reject) => {
  wake = () => heard.some(([, uri]) => uri === resource) && resolve();
  setTimeout(() => reject(new Error(`no notice came, only ${JSON.stringify(heard)}`)), 20_000).unref();
});
await tool('artifact_edit', { slug, base_version: 1, content: 'two' });
await updated;
await subscription.close?.();
await client.close();
console.log(`the TypeScript client, ${version}: all is well`);
