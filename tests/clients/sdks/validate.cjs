// Validates structured content as the official TypeScript SDK does: it reads a list of
// {name, schema, value} as JSON and writes what is wrong, by name. Without a value, a schema is only
// compiled, as the SDK does for each listed tool.

const { readFileSync } = require("node:fs");
const { AjvJsonSchemaValidator } = require("@modelcontextprotocol/sdk/validation/ajv");

const problems = {};
for (const { name, schema, value } of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const result = new AjvJsonSchemaValidator().getValidator(schema)(value);
    if (value !== undefined && !result.valid) problems[name] = result.errorMessage;
  } catch (error) {
    problems[name] = String(error);
  }
}
process.stdout.write(JSON.stringify(problems));
