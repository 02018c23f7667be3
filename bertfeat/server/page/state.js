// The state of a view in the address: #search?q=bank&k=20. It never reaches the server or its logs.

const VIEWS = ["search", "usages", "map", "about"];

/** What views tell each other: what the server said of itself, and what was searched last. */
export const session = { state: null, query: null, asked: null, hits: [], searched: 0 };

/** The view and its parameters, as the address has them. */
export function readAddress() {
  const [name, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { view: VIEWS.includes(name) ? name : null, parameters: new URLSearchParams(query) };
}

/** Write the state of a view, as a new entry of the history where the view showed something else. */
export function writeAddress(view, values) {
  const hash = addressOf(view, values);
  if (hash === location.hash) return;
  if (readAddress().parameters.toString() !== "") history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}

/** Write the state of a view without an entry of the history: for what changes all the time. */
export function replaceAddress(view, values) {
  history.replaceState(null, "", addressOf(view, values));
}

/** Empty values are left out. The link to the view keeps its state. */
function addressOf(view, values) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    if (value !== null && value !== undefined && value !== "" && value !== false) parameters.set(name, String(value));
  const query = parameters.toString(), hash = `#${view}${query ? `?${query}` : ""}`;
  document.querySelector(`nav a[href^="#${view}"]`).setAttribute("href", hash);
  return hash;
}

/** The address that shows the same to somebody else. */
export const sharedAddress = () => location.href;
