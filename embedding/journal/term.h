/* term.h: the terms of a shard's leaderships, as its journal has them (RECORD_TERM): the newest
 * ones with the records that begin them, and the newest record that two copies share.
 *
 * A term belongs to one process of one leader, which journals its beginning before any other
 * record. Two copies whose journals both begin a term therefore have the same records in it, as far
 * as the shorter of the two goes, and the same ones before it.
 *
 * Invariants:
 * 1. Terms and sequences rise from entry to entry. [assert: term_add]
 * 2. A record that two copies are said to share is the same one on both. It is unknown (NOT_FOUND)
 *    where the other copy's term is not among the entries, even between two of them: the other copy
 *    may have begun that term anywhere. [test: the_newest_common_record]
 *
 * Pure functions. */
#ifndef EMBEDDING_JOURNAL_TERM_H
#define EMBEDDING_JOURNAL_TERM_H

#include <stdint.h>

#define TERMS_KEPT 16u

struct term_begin {
    uint64_t term, sequence; /* sequence: its RECORD_TERM */
};
struct terms {
    uint64_t dropped; /* the newest term that there was no room for; 0: none */
    uint32_t count, zero;
    struct term_begin begin[TERMS_KEPT]; /* oldest first */
};

/* The newest term; 0: none was begun. */
uint64_t term_last(const struct terms *t);
/* The record begins a term above the last one. */
void term_add(struct terms *t, uint64_t term, uint64_t sequence);
/* *common: the newest record that a copy with these terms and `newest` as its last record shares
 * with one whose last record is `sequence`, of `term`. NOT_FOUND: it is not known. */
int term_common(const struct terms *t, uint64_t newest, uint64_t term, uint64_t sequence,
                uint64_t *common);

#endif
