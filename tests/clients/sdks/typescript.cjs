// The official TypeScript SDK, controlled over stdin (see control.py): typescript.cjs URL
// CommonJS, because only that searches NODE_PATH, where the SDK is installed.

const { createInterface } = require("node:readline");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const {
  StreamableHTTPClientTransport,
} = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  McpError,
} = require("@modelcontextprotocol/sdk/types.js");

const CAPABILITIES = { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } };
const SERVER_REQUESTS = [ElicitRequestSchema, CreateMessageRequestSchema, ListRootsRequestSchema];

const METHODS = {
  "ping": (client) => client.ping(),
  "logging/setLevel": (client, params) => client.setLoggingLevel(params.level),
  "tools/list": (client, params) => client.listTools(params),
  "tools/call": (client, params, options) => client.callTool(params, undefined, options),
  "resources/list": (client, params) => client.listResources(params),
  "resources/templates/list": (client, params) => client.listResourceTemplates(params),
  "resources/read": (client, params, options) => client.readResource(params, options),
  "resources/subscribe": (client, params) => client.subscribeResource(params),
  "resources/unsubscribe": (client, params) => client.unsubscribeResource(params),
  "prompts/list": (client, params) => client.listPrompts(params),
  "prompts/get": (client, params) => client.getPrompt(params),
  "completion/complete": (client, params) => client.complete(params),
};

const answers = new Map();
const running = new Map();

function write(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

function handle({ method, params = {} }) {
  const request = answers.size + 1;
  write({ request, method, params });
  return new Promise((resolve) => answers.set(request, resolve));
}

async function run(client, { id, method, params }, methods = METHODS) {
  const onprogress = (params) => write({ id, notification: "notifications/progress", params });
  const abort = new AbortController();
  running.set(id, abort);
  try {
    const options = { onprogress, signal: abort.signal };
    write({ id, result: await methods[method](client, params, options) });
  } catch (error) {
    write({ id, error: described(error) });
  }
}

function described(error) {
  if (!(error instanceof McpError)) return { raised: String(error) };
  // The SDK puts the code before the message of the server.
  const message = error.message.replace(`MCP error ${error.code}: `, "");
  return { code: error.code, message, data: error.data };
}

// Executes lines until the input ends.
async function runCommands(execute) {
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    if ("answer" in command) answers.get(command.answer)(command.result);
    else if ("cancel" in command) running.get(command.cancel).abort();
    else execute(command);
  }
}

async function main(url) {
  const client = new Client(
    { name: "typescript", version: "1.0" },
    { capabilities: CAPABILITIES },
  );
  for (const schema of SERVER_REQUESTS) client.setRequestHandler(schema, handle);
  client.fallbackNotificationHandler = async ({ method, params }) => write({ notification: method, params });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  write({
    connected: transport.protocolVersion,
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
  });
  await runCommands((command) => run(client, command));
  await transport.terminateSession();
  await client.close();
}

module.exports = { METHODS, handle, run, runCommands, write };

if (require.main === module) main(...process.argv.slice(2));
