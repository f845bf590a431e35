/* table_set.h: a set of tables of a fleet, a bit for each number that a table may have. It stands
 * in messages, records and stored values as its words: bit t % 64 of word t / 64 is table t. */
#ifndef PROTO_BASE_TABLE_SET_H
#define PROTO_BASE_TABLE_SET_H

#include "proto/base/assert.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define TABLE_SET_WORDS (LIMIT_TABLES / 64)
struct table_set {
    uint64_t word[TABLE_SET_WORDS];
};
_Static_assert(LIMIT_TABLES == 256 && sizeof(struct table_set) == 32,
               "table_set is a wire and a disk format");

#define TABLE_SET_NONE ((struct table_set){{0}})
#define TABLE_SET_ALL ((struct table_set){{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}})

/* False for a number past the limit. */
static inline bool table_set_has(const struct table_set *s, uint32_t table)
{
    return table < LIMIT_TABLES && (s->word[table / 64] >> table % 64 & 1) != 0;
}

static inline void table_set_add(struct table_set *s, uint32_t table)
{
    SHOAL_ASSERT(table < LIMIT_TABLES);
    s->word[table / 64] |= UINT64_C(1) << table % 64;
}

static inline void table_set_remove(struct table_set *s, uint32_t table)
{
    SHOAL_ASSERT(table < LIMIT_TABLES);
    s->word[table / 64] &= ~(UINT64_C(1) << table % 64);
}

/* The set of one table. */
static inline struct table_set table_set_one(uint32_t table)
{
    struct table_set s = TABLE_SET_NONE;
    table_set_add(&s, table);
    return s;
}

/* The tables 0 to 63 by their bits, which are all that releases knew before the set had words. */
static inline struct table_set table_set_word(uint64_t bits)
{
    return (struct table_set){{bits}};
}

/* True when the set is that of its first word. Where it is, a format writes this word alone, as
 * older releases do. */
static inline bool table_set_is_word(struct table_set s)
{
    return (s.word[1] | s.word[2] | s.word[3]) == 0;
}

static inline bool table_set_any(struct table_set s)
{
    return (s.word[0] | s.word[1] | s.word[2] | s.word[3]) != 0;
}

static inline struct table_set table_set_and(struct table_set a, struct table_set b)
{
    for (uint32_t i = 0; i < TABLE_SET_WORDS; i++)
        a.word[i] &= b.word[i];
    return a;
}

static inline struct table_set table_set_or(struct table_set a, struct table_set b)
{
    for (uint32_t i = 0; i < TABLE_SET_WORDS; i++)
        a.word[i] |= b.word[i];
    return a;
}

/* The tables of a that are not in b. */
static inline struct table_set table_set_less(struct table_set a, struct table_set b)
{
    for (uint32_t i = 0; i < TABLE_SET_WORDS; i++)
        a.word[i] &= ~b.word[i];
    return a;
}

static inline bool table_set_equal(struct table_set a, struct table_set b)
{
    return !table_set_any(table_set_or(table_set_less(a, b), table_set_less(b, a)));
}

/* True when some table is in both. */
static inline bool table_set_meet(struct table_set a, struct table_set b)
{
    return table_set_any(table_set_and(a, b));
}

/* True when b has all tables of a. */
static inline bool table_set_within(struct table_set a, struct table_set b)
{
    return !table_set_any(table_set_less(a, b));
}

/* The lowest number in the set from `from` on; LIMIT_TABLES: there is none. */
static inline uint32_t table_set_next(const struct table_set *s, uint32_t from)
{
    for (uint32_t i = from / 64; i < TABLE_SET_WORDS; i++, from = 64 * i) {
        const uint64_t left = s->word[i] >> from % 64;
        if (left != 0)
            return from + (uint32_t)__builtin_ctzll(left);
    }
    return LIMIT_TABLES;
}

/* The next number behind `table`, else the lowest one; `table` where the set is empty. */
static inline uint32_t table_set_round(const struct table_set *s, uint32_t table)
{
    uint32_t next = table_set_next(s, table + 1);
    if (next == LIMIT_TABLES)
        next = table_set_next(s, 0);
    return next == LIMIT_TABLES ? table : next;
}

/* for each table t of the set *s, by number */
#define TABLE_SET_EACH(t, s)                                                                       \
    for (uint32_t t = table_set_next(s, 0); t < LIMIT_TABLES; t = table_set_next(s, t + 1))

/* The set, or all tables where it is empty: so requests mean it. */
static inline struct table_set table_set_or_all(struct table_set s)
{
    return table_set_any(s) ? s : TABLE_SET_ALL;
}

/* The lowest number; LIMIT_TABLES: the set is empty. */
uint32_t table_set_lowest(struct table_set s);
uint32_t table_set_count(struct table_set s);
/* The numbers below `count`; true when a set is one of these. */
struct table_set table_set_first(uint32_t count);
bool table_set_is_first(struct table_set s);
/* The index-th number of the set: numbers rise with a job's order of its tables, so this is the
 * number by which shards know the job's table of this index. LIMIT_TABLES: there is none. */
uint32_t table_set_nth(struct table_set s, uint32_t index);

/* As text: "0x" and the hexadecimal digits of the bits, 16 for the tables 0 to 63 alone, as all
 * releases write them, else 16 for each word, the last word first. */
#define TABLE_SET_TEXT (2 + 16 * TABLE_SET_WORDS + 1)
void table_set_text(struct table_set s, char out[TABLE_SET_TEXT]);
/* False: the text is no set. */
bool table_set_parse(const char *text, struct table_set *out);

#endif
