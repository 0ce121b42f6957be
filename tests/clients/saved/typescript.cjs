// Calls a tool with the official TypeScript SDK, whose tokens are saved in a file (see python_sdk.py).

const fs = require("node:fs");
const readline = require("node:readline");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const {
  StreamableHTTPClientTransport,
} = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { UnauthorizedError } = require("@modelcontextprotocol/sdk/client/auth.js");

const [url, path, redirectUrl] = process.argv.slice(2);
const write = (line) => console.log(JSON.stringify(line));
const saved = fs.existsSync(path) ? JSON.parse(fs.readFileSync(path, "utf8")) : {};
const save = (name, value) => {
  saved[name] = value;
  fs.writeFileSync(path, JSON.stringify(saved));
};

let authorizationUrl;
const provider = {
  redirectUrl,
  clientMetadata: {
    client_name: "TypeScript SDK",
    redirect_uris: [redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    token_endpoint_auth_method: "none",
  },
  clientInformation: () => saved.client,
  saveClientInformation: (client) => save("client", client),
  tokens: () => saved.tokens,
  saveTokens: (tokens) => save("tokens", tokens),
  codeVerifier: () => saved.verifier,
  saveCodeVerifier: (verifier) => save("verifier", verifier),
  state: () => "state of the client",
  redirectToAuthorization: (page) => { authorizationUrl = String(page); },
};

const lines = readline.createInterface({ input: process.stdin });
const nextLine = () => new Promise((resolve) => lines.once("line", (line) => resolve(JSON.parse(line))));

// Repeats on the same transport what needed a login: an anonymous session is taken over.
async function withLogin(transport, request) {
  try {
    return await request();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    write({ authorize: authorizationUrl });
    const { code } = await nextLine();
    await transport.finishAuth(code);
    return null;
  }
}

async function main() {
  let transport, client;
  const connect = async () => {
    transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    client = new Client({ name: "typescript", version: "1.0" });
    await client.connect(transport);
    return true;
  };
  if (!(await withLogin({ finishAuth: (code) => transport.finishAuth(code) }, connect))) await connect();
  const call = () => client.callTool({ name: "my_tickets", arguments: {} });
  const result = (await withLogin(transport, call)) ?? (await call());
  write({ text: result.content.map((part) => part.text ?? "").join(" ") });
  await client.close();
  lines.close();
}

main().catch((error) => { console.error(error); process.exit(1); });
