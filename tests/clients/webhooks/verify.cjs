// Verifies webhooks that it reads from stdin: [{secret, headers, body}], and prints what each has.
const { Webhook } = require("standardwebhooks");

const verified = JSON.parse(require("fs").readFileSync(0, "utf8")).map(
  ({ secret, headers, body }) => {
    try {
      return new Webhook(secret).verify(body, headers);
    } catch (error) {
      return error.message;
    }
  },
);
console.log(JSON.stringify(verified));
