/* WordPiece (Wu et al. 2016) as BERT's tokenizers do it: the longest piece first, from the beginning of each word.

   Texts come as UTF-32, all in one array. What a character becomes is in a table that Python fills from the tokenizer's
   own normalizer, for the characters that are met: this file knows no Unicode. A text with a character that is not in
   the table yet, or that the table refuses, or with the beginning of an added token such as [CLS], is given back.
   Nothing here is written to but what a call is given for it, so any number of threads may call at once. */

#include <stdint.h>
#include <string.h>

enum { VERSION = 1 };

/* What a character becomes, in the low 3 bits of its entry. */
enum { UNKNOWN, LETTER, ALONE, SPACE, NOTHING, SEVERAL, REFUSED };
/* The next bit says that an added token may begin with it; above stands the character that it becomes, or, of SEVERAL,
   where their number and they themselves begin in the list of expansions. */
enum { KIND = 7, BEGINS_ADDED = 8, VALUE_SHIFT = 4 };

enum { GIVEN_BACK = -1, MET_UNKNOWN = -2 };

/* A step in the tree of pieces: from a node by a character to the next node. A node is the number of its step's slot. */
typedef struct {
    uint64_t key; /* node << 32 | character, plus 1; 0: empty */
    int32_t id;   /* of the piece that ends here; -1: none */
    int32_t unused;
} Step;

typedef struct {
    Step *steps;
    int64_t slots; /* a power of 2 */
    int64_t shift; /* 64 minus its logarithm */
} Tree;

typedef struct {
    Tree tree;
    const uint32_t *table;      /* [0x110000] entries of characters */
    const uint32_t *expansions; /* of SEVERAL */
    const uint32_t *added;      /* added tokens in lower case: a length, and so many characters; 0 ends them */
    int64_t unknown;            /* the id of words that have no pieces */
    int64_t most;               /* characters of a word; longer ones are unknown */
    const uint32_t *text;       /* [bounds[texts]] */
    const int64_t *bounds;      /* [texts + 1] */
    int64_t texts;
    int32_t *ids;    /* room for as many as characters can become */
    int32_t *starts; /* character offsets in each text; NULL: not wanted */
    int32_t *ends;
    int64_t *counts;     /* [texts] pieces of each text, or why it has none */
    uint32_t *word;      /* [2 * most] room for the characters of a word, and for where they are from */
} Split;

enum { WORDS = 0, INNER = 1 }; /* the roots: of pieces that begin a word, and of those that go on */
enum { ROOTS = 2 };

static int64_t slot_of(const Tree *tree, uint64_t key) {
    int64_t slot = (int64_t)((key * 0x9E3779B97F4A7C15u) >> tree->shift);
    while (tree->steps[slot].key && tree->steps[slot].key != key) slot = (slot + 1) & (tree->slots - 1);
    return slot;
}

/* Nodes are counted from the roots on, so that a slot's node is its number plus ROOTS. */
static uint64_t key_of(int64_t node, uint32_t character) { return ((uint64_t)node << 32 | character) + 1; }

/* Put pieces into empty steps; inner says of each whether it goes on with a word. Returns 0, or 1 where all is full. */
int64_t bertfeat_wordpiece_build(Tree *tree, const uint32_t *text, const int64_t *bounds, const int32_t *ids,
                                 const int8_t *inner, int64_t count) {
    int64_t used = 0;
    for (int64_t piece = 0; piece < count; piece++) {
        int64_t node = inner[piece] ? INNER : WORDS, slot = -1;
        for (int64_t at = bounds[piece]; at < bounds[piece + 1]; at++) {
            uint64_t key = key_of(node, text[at]);
            slot = slot_of(tree, key);
            if (!tree->steps[slot].key) {
                if (2 * ++used > tree->slots) return 1;
                tree->steps[slot].key = key;
                tree->steps[slot].id = -1;
            }
            node = slot + ROOTS;
        }
        if (slot >= 0) tree->steps[slot].id = ids[piece];
    }
    return 0;
}

/* The pieces that were found in a text so far. */
typedef struct {
    const Split *job;
    int64_t count;
} Found;

static void put(Found *found, int32_t id, uint32_t start, uint32_t end) {
    const Split *job = found->job;
    job->ids[found->count] = id;
    if (job->starts) {
        job->starts[found->count] = (int32_t)start;
        job->ends[found->count] = (int32_t)end;
    }
    found->count++;
}

/* The pieces of a word of so many characters, which are from those places; one unknown piece where there are none. */
static void split_word(Found *found, const uint32_t *word, const uint32_t *from, int64_t length, uint32_t last) {
    const Split *job = found->job;
    const int64_t before = found->count;
    int64_t at = 0;
    while (at < length && length <= job->most) {
        int64_t node = at ? INNER : WORDS, stop = at;
        int32_t id = -1;
        for (int64_t to = at; to < length; to++) {
            const int64_t slot = slot_of(&job->tree, key_of(node, word[to]));
            const Step *step = &job->tree.steps[slot];
            if (!step->key) break;
            if (step->id >= 0) id = step->id, stop = to + 1;
            node = slot + ROOTS;
        }
        if (id < 0) break;
        put(found, id, from[at], from[stop - 1] + 1);
        at = stop;
    }
    if (at < length) {
        found->count = before;
        put(found, (int32_t)job->unknown, from[0], last + 1);
    }
}

/* Whether an added token stands here, or what differs from it only in case. */
static int is_added(const Split *job, const uint32_t *text, int64_t left) {
    for (const uint32_t *added = job->added; *added; added += *added + 1) {
        int64_t same = 0;
        while (same < *added && same < left) {
            uint32_t character = text[same];
            if (character - 'A' < 26u) character += 'a' - 'A';
            if (character != added[1 + same]) break;
            same++;
        }
        if (same == *added) return 1;
    }
    return 0;
}

/* The number of pieces of a text, or why it is given back. */
static int64_t split_text(const Split *job, int64_t text, int64_t room) {
    const uint32_t *characters = job->text + job->bounds[text];
    const int64_t size = job->bounds[text + 1] - job->bounds[text];
    uint32_t *word = job->word, *from = word + job->most;
    Found found = {job, room};
    int64_t length = 0;  /* of the word, also beyond the most that are kept */
    uint32_t last = 0;   /* the place of its last character */
    for (int64_t at = 0; at < size; at++) {
        const uint32_t character = characters[at], entry = character < 0x110000 ? job->table[character] : REFUSED;
        const uint32_t kind = entry & KIND;
        if (entry & BEGINS_ADDED && is_added(job, characters + at, size - at)) return GIVEN_BACK;
        if (kind == UNKNOWN) return MET_UNKNOWN;
        if (kind == REFUSED) return GIVEN_BACK;
        if (kind == NOTHING) continue;
        if (kind == LETTER || kind == SEVERAL) {
            const uint32_t value = entry >> VALUE_SHIFT;
            const uint32_t *letters = kind == LETTER ? &value : job->expansions + value + 1;
            const uint32_t count = kind == LETTER ? 1 : job->expansions[value];
            for (uint32_t letter = 0; letter < count; letter++, length++) {
                if (length >= job->most) continue;
                word[length] = letters[letter];
                from[length] = (uint32_t)at;
            }
            last = (uint32_t)at;
            continue;
        }
        if (length) split_word(&found, word, from, length, last);
        length = 0;
        if (kind == ALONE) {
            const uint32_t value = entry >> VALUE_SHIFT, place = (uint32_t)at;
            split_word(&found, &value, &place, 1, place);
        }
    }
    if (length) split_word(&found, word, from, length, last);
    return found.count - room;
}

/* Split all texts; the pieces of those that have some stand one after another. Returns whether a character was met that
   is not in the table yet. */
int64_t bertfeat_wordpiece_split(const Split *job) {
    int64_t room = 0, met = 0;
    for (int64_t text = 0; text < job->texts; text++) {
        job->counts[text] = split_text(job, text, room);
        if (job->counts[text] > 0) room += job->counts[text];
        met |= job->counts[text] == MET_UNKNOWN;
    }
    return met;
}

/* The version of this interface, and the sizes of its structs. */
int64_t bertfeat_wordpiece_version(int64_t sizes[2]) {
    sizes[0] = sizeof(Tree);
    sizes[1] = sizeof(Split);
    return VERSION;
}
