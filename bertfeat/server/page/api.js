// Requests to the server that this page came from. Addresses are relative, so that any path prefix works.

import { byId } from "./dom.js";

const KEY = "bertfeat-key";
let version = null; // of the index that the page was opened with

export const base = new URL(".", document.baseURI).href.split("#")[0];

export class ServerError extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

/** Remember which version of the index the page shows: numbers of vectors are of that one. */
export const keepVersion = (index) => { version = index && `${index.version}.${index.made}`; };

export const hasKey = () => sessionStorage.getItem(KEY) !== null;

/**
 * Ask the server; asks the visitor for a key where it wants one. Where it says that it is not ready, this waits, or
 * returns null without `wait`.
 */
export async function ask(path, { body, signal, binary = false, wait: waiting = true } = {}) {
  for (let attempt = 0; ; attempt++) {
    const answer = await send(path, body, signal);
    if (answer.status === 401) {
      await askForKey();
      continue;
    }
    if (answer.status === 202 && !waiting) return null;
    const again = answer.status === 202 || ((answer.status === 503 || answer.status === 429) && attempt < 30);
    if (again) {
      await wait(1000 * Math.min(10, Number(answer.headers.get("Retry-After")) || 1), signal);
      continue;
    }
    const answering = answer.headers.get("X-Index-Version");
    if (version && answering && answering !== version) {
      location.reload(); // the address says what is shown
      await new Promise(() => {});
    }
    if (!answer.ok) throw new ServerError(await problem(answer), answer.status);
    return binary ? { data: await answer.arrayBuffer(), headers: answer.headers } : answer.json();
  }
}

async function send(path, body, signal) {
  const headers = { "X-Bertfeat-Client": "page" }; // errors then name the page's fields
  if (hasKey()) headers.Authorization = `Bearer ${sessionStorage.getItem(KEY)}`;
  if (body) headers["Content-Type"] = "application/json";
  const how = { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body) };
  try {
    return await fetch(new URL(path, base), how);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server does not answer. Is it still running?", 0);
  }
}

/** The message of an error, in any of the forms that the server has. */
async function problem(answer) {
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text);
    return (typeof error === "string" ? error : error.message) || text;
  } catch {
    return text || `The server answered ${answer.status}.`;
  }
}

function wait(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("left", "AbortError"));
    });
  });
}

let asking = null; // one form for all requests that wait for a key

function askForKey() {
  asking ??= new Promise((resolve) => {
    const form = byId("key-form");
    if (hasKey()) byId("key-note").textContent = "The server did not accept this key.";
    sessionStorage.removeItem(KEY);
    form.hidden = false;
    byId("key").focus();
    form.onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, byId("key").value.trim());
      byId("key").value = "";
      form.hidden = true;
      asking = null;
      resolve();
    };
  });
  return asking;
}

/** One request at a time: a new one ends the one before, whose answer nobody waits for. */
export class Latest {
  #controller = null;

  async ask(path, options = {}) {
    this.#controller?.abort();
    const mine = (this.#controller = new AbortController());
    return ask(path, { ...options, signal: mine.signal });
  }

  stop() { this.#controller?.abort(); }
}

export const wasLeft = (error) => error.name === "AbortError";
