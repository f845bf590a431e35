/* quotes.c: quotes and delimiters of a csv line as bits of 64-bit words.
 *
 * 1. `within` has a bit for each byte with an odd number of quotes up to it: the opening quote
 *    and the bytes of a quoted cell. Closing quotes and all other bytes have none.
 *    [test: quotes_split_takes_quotes_off]
 * 2. In a regular line an opening quote stands behind a delimiter, at the line's begin, or
 *    behind the quote that it escapes; a closing one in front of a delimiter, at the line's end,
 *    or in front of such a quote. [test: quotes_irregular_lines_are_left_to_the_reader] */
#include "worker/data/quotes.h"

#include "proto/base/x86.h"

#include <string.h>

#ifdef SHOAL_X86
#include <immintrin.h>
#endif

#define BLOCK 64u

struct bits {
    uint64_t quote, delimiter;
};

/* The state that a block leaves to the next one. */
struct walk {
    uint64_t within; /* all bits while a quoted cell is open */
    uint64_t may;    /* bit 0: an opening quote may follow */
    uint64_t must;   /* bit 0: a delimiter or a quote must follow */
    uint64_t paired; /* bits of quotes that are escaped by the one before them */
    bool irregular;
};

#ifdef SHOAL_X86
static inline struct bits block_bits(const char *at, char delimiter)
{
    const __m128i quote = _mm_set1_epi8('"'), wanted = _mm_set1_epi8(delimiter);
    struct bits b = {0, 0};
    for (unsigned i = 0; i < 4; i++) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i));
        b.quote |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, quote)) << 16 * i;
        b.delimiter |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, wanted)) << 16 * i;
    }
    return b;
}
#else
static inline struct bits block_bits(const char *at, char delimiter)
{
    struct bits b = {0, 0};
    for (unsigned i = 0; i < BLOCK; i++) {
        b.quote |= (uint64_t)(at[i] == '"') << i;
        b.delimiter |= (uint64_t)(at[i] == delimiter) << i;
    }
    return b;
}
#endif

/* The bits of line[i..]; those behind the line's end are 0. */
static inline struct bits bits_at(const char *line, size_t bytes, size_t i, char delimiter)
{
    char rest[BLOCK];
    if (bytes - i >= BLOCK)
        return block_bits(line + i, delimiter);
    memset(rest, 0, sizeof rest);
    memcpy(rest, line + i, bytes - i);
    struct bits b = block_bits(rest, delimiter);
    uint64_t is = (1ULL << (bytes - i)) - 1;
    return (struct bits){b.quote & is, b.delimiter & is};
}

/* Bit i of the result is the parity of bits 0 to i. */
static inline uint64_t parity(uint64_t bits)
{
    for (unsigned by = 1; by < BLOCK; by *= 2)
        bits ^= bits << by;
    return bits;
}

/* Takes a block of `size` bytes; the result has a bit for each delimiter outside of quotes. */
static inline uint64_t walk_block(struct walk *w, struct bits b, size_t size)
{
    uint64_t within = parity(b.quote) ^ w->within; /* 1 */
    uint64_t opens = b.quote & within, closes = b.quote & ~within, ends = b.delimiter & ~within;
    uint64_t before = (ends | closes) << 1 | w->may, behind = closes << 1 | w->must;
    w->irregular |= (opens & ~before) != 0; /* 2 */
    w->irregular |= (behind & ~(ends | b.quote) & (size < BLOCK ? (1ULL << size) - 1 : ~0ULL)) != 0;
    w->paired |= opens & (closes << 1 | w->must);
    w->within = 0 - (within >> (size - 1) & 1);
    w->may = (ends | closes) >> (size - 1) & 1;
    w->must = closes >> (size - 1) & 1;
    return ends;
}

enum quotes_end quotes_look(char delimiter, const char *line, size_t bytes)
{
    struct walk w = {.may = 1};
    for (size_t i = 0; i < bytes; i += BLOCK) {
        size_t size = bytes - i < BLOCK ? bytes - i : BLOCK;
        (void)walk_block(&w, bits_at(line, bytes, i, delimiter), size);
    }
    if (w.irregular)
        return QUOTES_IRREGULAR;
    if (w.within != 0)
        return QUOTES_OPEN;
    return QUOTES_CLOSED;
}

/* Takes one of each pair of quotes out. */
static void unpair(struct cell *cell, char *text)
{
    uint32_t to = 0;
    for (uint32_t i = 0; i < cell->bytes; i++) {
        text[to++] = text[i];
        i += text[i] == '"';
    }
    cell->bytes = to;
}

static inline void cell_add(struct cell *cell, uint32_t *count, const char *from, const char *to)
{
    if (*count < CELLS_MAX)
        cell[*count] = (struct cell){from, (uint32_t)(to - from)};
    ++*count;
}

bool quotes_split(char delimiter, char *line, size_t bytes, struct cell *cell, uint32_t *count)
{
    struct walk w = {.may = 1};
    const char *from = line;
    *count = 0;
    for (size_t i = 0; i < bytes; i += BLOCK) {
        size_t size = bytes - i < BLOCK ? bytes - i : BLOCK;
        uint64_t ends = walk_block(&w, bits_at(line, bytes, i, delimiter), size);
        for (; ends != 0; ends &= ends - 1) {
            const char *end = line + i + (unsigned)__builtin_ctzll(ends);
            cell_add(cell, count, from, end);
            from = end + 1;
        }
    }
    cell_add(cell, count, from, line + bytes);
    if (w.irregular || w.within != 0)
        return false;
    for (uint32_t i = 0; i < *count && i < CELLS_MAX; i++) {
        if (cell[i].bytes == 0 || cell[i].text[0] != '"')
            continue;
        cell[i] = (struct cell){cell[i].text + 1, cell[i].bytes - 2};
        if (w.paired != 0)
            unpair(&cell[i], line + (cell[i].text - line));
    }
    return true;
}
