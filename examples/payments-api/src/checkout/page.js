// The form. Its payment is made at the first click, key and all, and is kept with the form: in the
// session's storage, so that a reload carries it on instead of making another one.

import { watch } from "./ledger.js";
import { pay } from "./payment.js";

const PLACE = "checkout";
const el = Object.fromEntries([...document.querySelectorAll("[id]")].map((node) => [node.id, node]));

// {order, payment?: {key, body, lose}, answer?}
let state = load() ?? { order: `order_${newKey().slice(0, 8)}` };
let isBusy = false;

function load() {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE));
  } catch {
    return null;
  }
}

/** Without storage the page still pays once, as long as it is not reloaded. */
function save() {
  try {
    sessionStorage.setItem(PLACE, JSON.stringify(state));
  } catch (error) {
    console.warn("a reload will not carry the payment on", error);
  }
}

/** `crypto.randomUUID` is there on https and on localhost only. */
function newKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0"));
  return hex.join("");
}

el.form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (isBusy || isPaid()) return;
  if (!state.payment) {
    const order = { amount: 7650, currency: "eur", source: el.source.value, customer: state.order };
    state.payment = { key: newKey(), body: JSON.stringify(order), lose: el.lose.checked };
    save();
  }
  carryOn();
});

// another card is another payment; until then a click repeats the one that was refused
el.form.addEventListener("change", () => {
  if (isBusy || !state.answer) return;
  delete state.payment;
  delete state.answer;
  save();
  el.tries.replaceChildren();
  show();
});

el.again.addEventListener("click", () => {
  sessionStorage.removeItem(PLACE);
  location.reload();
});

const isPaid = () => state.answer && (state.answer.status < 300 || state.answer.status === 410);

async function carryOn() {
  isBusy = true;
  delete state.answer;
  show();
  const answer = await pay(state.payment, (line) => {
    const item = document.createElement("li");
    item.textContent = line;
    el.tries.append(item);
  });
  isBusy = false;
  if (answer) state.answer = answer;
  save();
  show(answer === null);
}

function show(isUnknown = false) {
  const { order, payment, answer } = state;
  el.order.textContent = order;
  el.key.textContent = payment?.key ?? "made at the first click";
  if (payment) {
    el.source.value = JSON.parse(payment.body).source;
    el.lose.checked = payment.lose;
  }
  el.form.setAttribute("aria-busy", isBusy);
  el.fields.disabled = isBusy || isUnknown || isPaid();
  // not disabled: a button that loses its focus loses the reader's place
  el.pay.setAttribute("aria-disabled", isBusy || isPaid());
  el.pay.textContent = isBusy ? "Paying …" : isPaid() ? "Paid" : isUnknown ? "Ask again" : "Pay €76.50";
  el.again.hidden = !isPaid();
  el.replayed.hidden = isBusy || !answer?.replayed;
  const [kind, verdict, detail] = message(answer, isUnknown);
  el.answer.className = `banner ${kind}`;
  el.answer.hidden = verdict === "";
  el.verdict.textContent = verdict;
  el.detail.textContent = detail;
}

function message(answer, isUnknown) {
  if (isBusy) return ["", "Paying …", "You can close the lid: the payment is carried on."];
  if (isUnknown) return ["bad", "No answer yet", "Nobody knows whether you were charged. Ask again: it is the same payment."];
  if (!answer) return ["", "", ""];
  if (isPaid()) return ["good", "Paid, thank you", answer.content.id ? `Receipt ${answer.content.id}` : "See the ledger."];
  return ["bad", "Not paid", answer.content.detail ?? `The answer was ${answer.status}.`];
}

show();
watch(() => state.order);
if (state.payment && !state.answer) carryOn();
