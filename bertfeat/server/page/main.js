// The page: it asks what the server has, and shows the view that the address names.

import { AboutView } from "./about.js";
import { ask, keepVersion } from "./api.js";
import { byId, Message } from "./dom.js";
import { MapView } from "./map.js";
import { SearchView } from "./search.js";
import { readAddress, session } from "./state.js";
import { UsagesView } from "./usages.js";

const search = new SearchView(), map = new MapView(), about = new AboutView();
const views = new Map(Object.entries({ search, usages: new UsagesView(), map, about }));
const opening = new Message("opening");
let shownView = null;

function learn(state) {
  session.state = state;
  keepVersion(state.index);
  for (const view of views.values()) view.learn(state);
  byId("model").textContent = `${state.model.name}, ${state.model.layers} layers, ${state.precision}`;
  byId("foot").textContent = `bertfeat ${state.version}. This page asks no other server.`;
}

function firstView({ index, features }) {
  if (index) return "search";
  return features.length ? "usages" : "about";
}

/** Show the view of the address; `moved` says that the visitor went there, and the focus goes along. */
function show(moved) {
  const { view, parameters } = readAddress(), name = view ?? firstView(session.state);
  for (const each of views.keys()) byId(each).hidden = each !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash.slice(1).split("?")[0] === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${byId(`${name}-title`).textContent} · bertfeat`;
  const changed = shownView !== name;
  shownView = name;
  views.get(name).show(parameters);
  if (moved && changed) {
    byId(`${name}-title`).focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

/** The values of kept columns are read while the page is shown already. */
async function learnFacets() {
  while (session.state.index && session.state.index.facets === null) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    const { index } = await ask("page/state");
    if (index.facets === null) continue;
    session.state.index = index;
    search.facets.show(index.facets);
    map.colors.offer(index.facets);
    about.learn(session.state);
  }
}

byId("skip").onclick = (event) => { event.preventDefault(); byId("main").focus(); };
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const field = byId(shownView === "usages" ? "word" : "query");
  if (field.offsetParent === null) return;
  event.preventDefault();
  field.focus();
  field.select();
});
window.addEventListener("hashchange", () => { if (session.state) show(true); });

try {
  learn(await ask("page/state"));
  byId("opening").hidden = true;
  show(false);
  await learnFacets();
} catch (error) {
  byId("opening").hidden = false;
  opening.fail(error);
}
