// Which edges are drawn inside which box. An edge between two boxes belongs to the innermost box around both, where it
// connects the two children that contain its ends; equal edges become one with a count. Neither depends on which boxes are open.

import type { Hierarchy } from "../model/hierarchy";
import type { Edge } from "../model/schema";

export interface LiftedEdge {
  /** Positions in `members` of the level. */
  from: number;
  to: number;
  /** The values that travel on it, without repeats. */
  values: number[];
}

export interface Level {
  /** The boxes laid out together, in program order. */
  members: number[];
  edges: LiftedEdge[];
}

/** Edges across the border of the box around a box, shown as a short tick, since the edge itself is drawn further out. */
export interface Crossings {
  /** Boxes that read something from outside the box around them. */
  reads: Uint8Array;
  /** Boxes that produce something used outside the box around them. */
  feeds: Uint8Array;
  /** Boxes that read something from outside with fewer than MANY users: they belong near the top of their box. */
  anchored: Uint8Array;
}

/** A value with this many users is available everywhere: its users need not be near it. */
export const MANY = 8;

export function crossingsOf(hierarchy: Hierarchy, edges: readonly Edge[]): Crossings {
  const { parent, depth } = hierarchy;
  const withBit = (bit: number) => Uint8Array.from(hierarchy.boxes, (box) => ((box.crosses ?? 0) & bit ? 1 : 0));
  const reads = withBit(1);
  const feeds = withBit(2);
  const anchored = withBit(1);
  const readers = new Map<number, number>();
  for (const edge of edges) readers.set(edge.source, (readers.get(edge.source) ?? 0) + 1);
  const enter = (box: number, from: number) => {
    reads[box] = 1;
    if ((readers.get(from) ?? 0) < MANY) anchored[box] = 1;
  };
  for (const edge of edges) {
    let a = hierarchy.find(edge.source);
    let b = hierarchy.find(edge.target);
    if (a < 0 || b < 0) continue;
    for (; depth[a] > depth[b]; a = parent[a]) feeds[a] = 1;
    for (; depth[b] > depth[a]; b = parent[b]) enter(b, edge.source);
    while (parent[a] !== parent[b]) {
      feeds[a] = 1;
      enter(b, edge.source);
      a = parent[a];
      b = parent[b];
    }
  }
  return { reads, feeds, anchored };
}

/** The edges without effects, which are those that carry no value. */
export function drawnEdges(edges: readonly Edge[], effects: boolean): readonly Edge[] {
  return effects ? edges : edges.filter((edge) => edge.value);
}

/** The level of a box whose contents were requested. */
export function levelOf(hierarchy: Hierarchy, around: number, edges: readonly Edge[]): Level {
  const members = hierarchy.inside(around);
  const place = new Map(members.map((member, k) => [hierarchy.boxes[member].id, k]));
  const known = new Map<number, LiftedEdge>();
  for (const { source, target, value } of edges) {
    const [from, to] = [place.get(source), place.get(target)];
    if (from === undefined || to === undefined) continue;
    const key = from * members.length + to;
    const same = known.get(key);
    if (same) same.values.push(value);
    else known.set(key, { from, to, values: [value] });
  }
  return { members, edges: [...known.values()] };
}

/** Levels by the box around them; -1 is the top. Boxes without children have none. */
export function levelsOf(hierarchy: Hierarchy, edges: readonly Edge[]): Map<number, Level> {
  const levels = new Map<number, Level>([[-1, { members: hierarchy.roots, edges: [] }]]);
  const place = new Int32Array(hierarchy.boxes.length);
  hierarchy.roots.forEach((box, k) => (place[box] = k));
  hierarchy.children.forEach((members, box) => {
    if (members.length) levels.set(box, { members, edges: [] });
    members.forEach((member, k) => (place[member] = k));
  });
  const known = new Map<number, Map<number, LiftedEdge>>();
  for (const edge of edges) {
    const ends = lift(hierarchy, hierarchy.find(edge.source), hierarchy.find(edge.target));
    if (!ends) continue;
    const [source, target] = ends;
    const around = hierarchy.parent[source];
    const level = levels.get(around)!;
    let here = known.get(around);
    if (!here) known.set(around, (here = new Map()));
    const key = place[source] * level.members.length + place[target];
    const same = here.get(key);
    if (!same) {
      const made = { from: place[source], to: place[target], values: [edge.value] };
      here.set(key, made);
      level.edges.push(made);
    } else if (same.values[same.values.length - 1] !== edge.value && !same.values.includes(edge.value)) {
      same.values.push(edge.value);
    }
  }
  return levels;
}

/** The two siblings that contain the ends of an edge; null if one end contains the other or is not drawn. */
export function lift(hierarchy: Hierarchy, source: number, target: number): [number, number] | null {
  if (source < 0 || target < 0) return null;
  const ends = hierarchy.apart(source, target);
  return ends[0] === ends[1] ? null : ends;
}
