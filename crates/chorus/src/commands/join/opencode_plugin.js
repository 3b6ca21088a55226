// Written by `chorus join`. `chorus leave` deletes this file.
// Wakes the open session when something waits in the Chorus inbox. Without something, no model is called.
import { spawn } from "node:child_process"

const command = COMMAND
const PAUSE_MS = 5000

export const Chorus = async ({ client }) => {
  let session // the one that was active last
  let waiting
  const wait = () => {
    if (waiting) return
    let text = ""
    waiting = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "ignore"] })
    waiting.stdout.on("data", (piece) => { text = (text + piece).slice(0, 4096) })
    waiting.on("error", () => {})
    waiting.on("close", async () => {
      waiting = undefined
      if (text.trim()) {
        const body = { parts: [{ type: "text", text: text.trim() }] }
        await client.session.promptAsync({ path: { id: session }, body }).catch(() => {})
      }
      setTimeout(wait, text.trim() ? 0 : PAUSE_MS).unref?.()
    })
    waiting.unref?.()
  }
  process.on("exit", () => waiting?.kill())
  return {
    event: async ({ event }) => {
      if (!event.type.startsWith("session.")) return
      session = event.properties?.sessionID ?? session
      if (session) wait()
    },
  }
}
