// The answers of a page without a kernel about two records, composed from its details of each: the same answers as Python's, in fewer words.
// A question that does not apply to the two has no answer.

import type { Records } from "./records";
import type { AliasDetail, Detail, PairDetail, PathStep, PointsToView, VerdictView } from "./schema";

/** The stored detail of a record; its alias detail is that of the state shown. */
export interface Known {
  detail: Detail;
  alias: AliasDetail | null;
}

export function pairFromDetails(records: Records, first: Known, second: Known): PairDetail {
  const ids = [first.detail.id, second.detail.id];
  return { ids, alias: aliasOf(records, first, second), fusion: fusionOf(records, first.detail, second.detail), same: sameOf(records, ids[0], ids[1]) };
}

function aliasOf(records: Records, first: Known, second: Known): VerdictView | null {
  if (!first.alias || !second.alias) return null;
  const [a, b] = [first, second].map(({ detail }) => (records.isValue(detail.id) ? detail.id : records.valuesOf(detail.id)[0]));
  const names = `${records.longTitle(first.detail.id)} and ${records.longTitle(second.detail.id)}`;
  if (a === b) return { holds: true, because: `${records.title(a)} is one value`, witness: [a] };
  const known = first.alias.alias_set.includes(b) ? first.alias : second.alias.alias_set.includes(a) ? second.alias : null;
  if (known) return { holds: true, because: `${names} are in one alias set: ${known.summary}`, witness: [a, b], steps: wayIn(records.view.points_to, a, b) };
  return { holds: false, because: `${records.title(a)} and ${records.title(b)} have no memory location in common`, witness: [] };
}

/** The steps on which two names of one memory are joined in the picture of the whole program: those from the first name up to one that both
 * came from, then those from the second. None if they do not meet there. */
export function wayIn(whole: PointsToView | null | undefined, a: number, b: number): (PathStep & { record: number })[] {
  if (!whole) return [];
  const at = (y: number) => whole.boxes.find((box) => Math.abs(box.y + HALF - y) <= HALF);
  const origin = new Map(whole.arrows.flatMap(({ kind, points, label }) => {
    const [from, to] = kind === "is" && points.length ? [at(points[0][1]), at(points[points.length - 1][1])] : [];
    return from && to ? [[to.record, { from, to, label }] as const] : [];
  }));
  const upFrom = (record: number) => {
    const way = [];
    for (let step = origin.get(record); step && way.length < origin.size; step = origin.get(step.from.record)) way.push(step);
    return way;
  };
  const ways = [upFrom(a), upFrom(b)];
  const [reachesA, reachesB] = ways.map((way, k) => [[a, b][k], ...way.map(({ from }) => from.record)]);
  const meets = reachesA.find((record) => reachesB.includes(record));
  if (meets === undefined) return [];
  return [...ways[0].slice(0, reachesA.indexOf(meets)), ...ways[1].slice(0, reachesB.indexOf(meets))].map(({ from, to, label }) => ({
    record: to.record, words: `${to.label} is ${from.label}, or a view of it (${label})`, node: whole.lines.find(({ y }) => y === to.y + HALF)?.node ?? 0,
  }));
}

/** From the top of a name in a picture of memory to the middle of its row. */
export const HALF = 12;

function fusionOf(records: Records, first: Detail, second: Detail): VerdictView | null {
  const [a, b] = [first, second].map(({ id }) => (records.isValue(id) ? records.makerOf(id) : id));
  if (!a || !b || !first.fusion || !second.fusion || first.gone_after !== undefined || second.gone_after !== undefined) return null;
  const [groupA, groupB] = [a, b].map((node) => records.hierarchy.groupAround(node));
  const names = `${records.longTitle(first.id)} and ${records.longTitle(second.id)}`;
  if (groupA && groupA === groupB) return { holds: true, because: `${names} are in one fusion group`, witness: [groupA] };
  const reason = neighbour(records, groupA, groupB || b) ?? neighbour(records, groupB, groupA || a);
  if (reason) return { holds: false, because: reason, witness: [groupA || a, groupB || b] };
  const alone = [[groupA, first], [groupB, second]] as const;
  const reasons = alone.filter(([group]) => !group).map(([, detail]) => `${records.longTitle(detail.id)} is ${detail.fusion}`);
  if (reasons.length) return { holds: false, because: [...new Set(reasons)].join("; "), witness: [a, b] };
  return { holds: false, because: `${names} are in two fusion groups, neither of which uses a result of the other`, witness: [groupA, groupB] };
}

/** Why a group does not include a neighbouring node or group; undefined if the page stores nothing about the two. */
function neighbour(records: Records, group: number, other: number): string | undefined {
  return records.view.details[group]?.neighbours?.find(({ id }) => id === other)?.because;
}

function sameOf(records: Records, first: number, second: number): VerdictView | null {
  const { view } = records;
  const groups = [first, second].map((id) => records.hierarchy.groupAround(records.isValue(id) ? records.makerOf(id) : id));
  if (groups[0] === groups[1]) return null;
  const [a, b] = groups.map((group) => view.classes.find(({ members }) => members.includes(group)));
  if (!a || !b) return null;
  const names = `the groups of ${records.longTitle(first)} and ${records.longTitle(second)}`;
  if (a.index === b.index) return { holds: true, because: `${names} are in one equivalence class`, witness: groups };
  const meets = view.coarser?.find((_, k) => a.coarser?.[k] === b.coarser?.[k]);
  const why = meets ? `are the same only from step '${meets.step}' on, which gives up ${meets.gives_up}` : "differ in structure: no step of the ladder merges them";
  return { holds: false, because: `${names} ${why}`, witness: groups };
}
