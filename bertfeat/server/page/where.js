// Conditions on kept columns, as the server reads them: lang in ('de', 'en') and year >= 1900.

const NAME = /^[\p{L}_][\p{L}\p{N}\p{M}_.]*$/u;
const TAKEN = ["and", "or", "not", "in", "is", "null", "none", "true", "false", "col", "like", "ilike", "contains",
  "starts", "ends", "with", "between"];

/** A text as a condition has it: quotes are doubled, and so are backslashes, which are escapes there. */
export const quoted = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;

export const spelled = (name) =>
  NAME.test(name) && !TAKEN.includes(name.toLowerCase()) ? name : `col(${quoted(name)})`;

const literal = (value) => (typeof value === "string" ? quoted(value) : String(value));

/** The condition of one facet's choice: { values: […] }, { min, max } or { contains }. */
export function conditionOf(name, choice) {
  const column = spelled(name), parts = [];
  if (choice.values?.length === 1) parts.push(`${column} = ${literal(choice.values[0])}`);
  if (choice.values?.length > 1) parts.push(`${column} in (${choice.values.map(literal).join(", ")})`);
  if (Number.isFinite(choice.min)) parts.push(`${column} >= ${choice.min}`);
  if (Number.isFinite(choice.max)) parts.push(`${column} <= ${choice.max}`);
  if (choice.contains) parts.push(`${column} contains ${quoted(choice.contains)}`);
  return parts.join(" and ");
}

/** All choices (column → choice) and what the visitor wrote, joined; null where there is nothing. */
export function wholeCondition(choices, written = "") {
  const parts = [...choices].map(([name, choice]) => conditionOf(name, choice)).filter(Boolean);
  if (written.trim()) parts.push(parts.length ? `(${written.trim()})` : written.trim());
  return parts.join(" and ") || null;
}
