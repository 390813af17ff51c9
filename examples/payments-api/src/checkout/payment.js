// One payment: sent under one key until an answer is final. The rules are those of the providers' own
// clients: the same key and the same bytes in each try, longer waits with jitter, and an end.

const MAX_TRIES = 8;
const PATIENCE_MS = 15_000;

/** Sends `{key, body}`. `told` hears of each try. Null: nobody knows, ask again with the same key. */
export async function pay({ key, body, lose }, told) {
  for (let number = 1; number <= MAX_TRIES; number += 1) {
    let wait = backoff(number);
    const isLast = number === MAX_TRIES;
    const next = () => (isLast ? "that was the last try" : `again in ${seconds(wait)}`);
    try {
      const answer = await send(key, body);
      if (lose && number === 1) throw new TypeError("the answer got lost");
      if (isFinal(answer.status)) {
        told(`Try ${number}: ${answer.status}${answer.replayed ? ", replayed" : ""}`);
        return answer;
      }
      wait = Math.max(wait, answer.retryAfterMs);
      told(`Try ${number}: ${answer.status}, ${next()}`);
    } catch (error) {
      told(`Try ${number}: no answer, ${next()}`);
    }
    if (!isLast) await sleep(wait);
  }
  return null;
}

async function send(key, body) {
  const response = await fetch("/checkout/charges", {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": key },
    body,
    cache: "no-store",
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const text = await response.text();
  return {
    status: response.status,
    replayed: response.headers.has("idempotent-replayed"),
    retryAfterMs: 1000 * (Number(response.headers.get("retry-after")) || 0),
    content: json(text),
  };
}

/** Another try cannot change it. */
function isFinal(status) {
  return status < 500 && ![408, 409, 425, 429].includes(status);
}

function backoff(number) {
  const longest = Math.min(500 * 2 ** (number - 1), 5000);
  return Math.max(500, longest * (0.5 + Math.random() / 2));
}

function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
