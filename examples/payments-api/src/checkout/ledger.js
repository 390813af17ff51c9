// The ledger beside the form: what really happened, asked for again and again.

const EVERY_MS = 700;
const NEWEST = 50;

const rows = document.getElementById("ledger");
const count = document.getElementById("count");
const live = document.getElementById("live");
let shown = "";

/** Shows the ledger from now on, and counts the charges of the order that `orderNow` names. */
export async function watch(orderNow) {
  for (;;) {
    if (!document.hidden) {
      try {
        const response = await fetch("/ledger", { cache: "no-store" });
        const { effects } = await response.json();
        show(effects, orderNow());
        online(true);
      } catch {
        online(false);
      }
    }
    await new Promise((done) => setTimeout(done, EVERY_MS));
  }
}

function online(is) {
  live.textContent = is ? "live" : "no connection";
  live.classList.toggle("off", !is);
}

function show(effects, order) {
  const own = effects.filter((effect) => effect.customer === order).length;
  const text = own === 0 ? "No charge for this order yet"
    : `${own} ${own === 1 ? "charge" : "charges"} for this order`;
  // what has not changed is neither drawn nor read out again
  const now = JSON.stringify([text, effects.length, effects.at(-1)?.id]);
  if (now === shown) return;
  shown = now;
  count.textContent = text;
  const newest = effects.slice(-NEWEST).reverse();
  rows.replaceChildren(...newest.map((effect) => row(effect, effect.customer === order)));
}

function row(effect, isOwn) {
  const line = document.createElement("tr");
  line.classList.toggle("own", isOwn);
  const amount = `${(effect.amount / 100).toFixed(2)} ${effect.currency.toUpperCase()}`;
  for (const text of [`${effect.kind} …${effect.id.slice(-6)}`, amount, effect.attempt ?? "–", effect.key_digest?.slice(0, 8) ?? "–"]) {
    const cell = document.createElement("td");
    cell.textContent = text;
    line.append(cell);
  }
  return line;
}
