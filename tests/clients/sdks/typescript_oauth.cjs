// The official TypeScript SDK with OAuth, controlled over stdin (see control.py):
// typescript_oauth.cjs URL REDIRECT_URI [CLIENT_METADATA_URL]

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const {
  StreamableHTTPClientTransport,
} = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { UnauthorizedError } = require("@modelcontextprotocol/sdk/client/auth.js");
const { METHODS, handle, run, runCommands, write } = require("./typescript.cjs");

// What the SDK stores, and where it sends the user to.
class Provider {
  constructor(redirectUrl, clientMetadataUrl) {
    this.redirectUrl = redirectUrl;
    this.clientMetadataUrl = clientMetadataUrl;
    this.clientMetadata = {
      client_name: "TypeScript SDK",
      redirect_uris: [redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      token_endpoint_auth_method: "none",
    };
  }
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  codeVerifier() { return this.verifier; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  state() { return "state of the client"; }
  redirectToAuthorization(url) { this.authorizationUrl = url; }

  // The SDK refreshes where it has a refresh token, which brings no further scopes.
  async fetch(url, options) {
    const response = await fetch(url, options);
    if (response.status === 403) this.saved = { ...this.saved, refresh_token: undefined };
    return response;
  }
}

let client, transport;

async function connect(url, provider) {
  transport = new StreamableHTTPClientTransport(new URL(url), {
    authProvider: provider,
    fetch: (...request) => provider.fetch(...request),
  });
  client = new Client({ name: "typescript", version: "1.0" });
  await client.connect(transport);
}

async function main(url, redirectUrl, clientMetadataUrl) {
  const provider = new Provider(redirectUrl, clientMetadataUrl);

  // A session belongs to who opened it, so that the client connects again after the login.
  async function call(_, params, options) {
    try {
      return await METHODS["tools/call"](client, params, options);
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      const answer = await handle({ method: "authorize", params: { url: provider.authorizationUrl } });
      await transport.finishAuth(answer.code);
      await client.close();
      await connect(url, provider);
      return METHODS["tools/call"](client, params, options);
    }
  }

  await connect(url, provider);
  write({ connected: transport.protocolVersion });
  const methods = {
    ...METHODS,
    "tools/call": call,
    "oauth/state": () => ({ client_id: provider.client?.client_id, tokens: provider.saved }),
    "oauth/expire": () => ({}), // It refreshes when the server rejects the token.
  };
  await runCommands((command) => run(client, command, methods));
  await transport.terminateSession();
  await client.close();
}

main(...process.argv.slice(2));
