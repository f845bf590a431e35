/* part_020.c: the manifests of parts and cuts as release 0.2.0 wrote them. They are read, never
 * written.
 *
 * Text, one fact a line; the last line is the XXH3 of all before it:
 *
 *     shoal part 2 | shoal cut 2
 *     part PART PARTS                       of a part alone, as all that the next two columns lack
 *     cut CUT SEQUENCE ROWS [TABLE:ROWS:BYTES]...
 *     run RUN TABLES(hex mask) LANES MODE   a part and a cut
 *     lane LANE MARK                        a part and a cut
 *     table NUMBER SCHEMA(hex bytes) NAME
 *     tablets TABLE FIRST COUNT
 *     file NAME BYTES XXH3
 *     cut CUT                               a cut, in place of a part's line "cut"
 *     sequence SEQUENCE
 *     existing TABLES(hex mask)
 *     count ROWS [TABLE:ROWS:BYTES]...
 *     segment NAME BYTES XXH3               a cut's files: in journal/, chained (part_checksum)
 *     rows NAME BYTES                       in rows/
 *     bytes BYTES                           of all files
 *     end XXH3
 */
#include "embedding/engine/part.h"

#include "proto/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Cuts the last line off and checks it, letter by letter: a flipped bit may leave the same number
 * behind. */
static bool text_whole(char *text, size_t bytes)
{
    char end[32];
    const size_t end_bytes = sizeof "end 0123456789abcdef\n" - 1;

    if (bytes < end_bytes)
        return false;
    snprintf(end, sizeof end, "end %016" PRIx64 "\n", hash_bytes(text, bytes - end_bytes, 0));
    if (memcmp(text + bytes - end_bytes, end, end_bytes) != 0)
        return false;
    text[bytes - end_bytes] = '\0';
    return true;
}

/* Sizes by table, behind the last number of a line. */
static int sizes_take(const char *text, struct cut_facts *f)
{
    uint64_t rows, bytes;
    uint32_t table;
    int used = 0;

    f->sized = *text != '\0';
    for (; *text != '\0'; text += used) {
        if (sscanf(text, " %u:%" SCNu64 ":%" SCNu64 "%n", &table, &rows, &bytes, &used) != 3 ||
            table >= LIMIT_TABLES)
            return SHOAL_E_CORRUPT;
        f->table_rows[table] = rows;
        f->table_bytes[table] = bytes;
    }
    return 0;
}

static int status_of(bool valid)
{
    return valid ? 0 : SHOAL_E_CORRUPT;
}

/* Lines that both kinds have. AGAIN: it is none of them. */
static int line_take(struct part *p, const char *line)
{
    struct cut_facts *f = &p->facts;
    uint64_t number;
    uint32_t lane;

    if (sscanf(line, "lane %u %" SCNu64, &lane, &number) == 2) {
        if (lane >= f->lanes)
            return SHOAL_E_CORRUPT;
        f->lowest[lane] = number;
        return 0;
    }
    if (sscanf(line, "run %" SCNu64 " %16" SCNx64 " %u %u", &f->run, &f->tables.word[0], &f->lanes,
               &f->mode) == 4)
        return status_of(f->lanes <= LIMIT_LANES && f->mode <= RUN_BSP &&
                         (f->run == 0) == (f->lanes == 0));
    if (sscanf(line, "bytes %" SCNu64, &number) == 1)
        return status_of(number == f->bytes);
    return SHOAL_E_AGAIN;
}

static int part_line_take(struct part *p, const char *line, struct err *e)
{
    struct cut_facts *f = &p->facts;
    struct part_range r;
    char name[PART_NAME_BYTES];
    uint64_t bytes, sum;
    uint32_t number;
    int at = 0;

    if (sscanf(line, "file %63s %" SCNu64 " %16" SCNx64, name, &bytes, &sum) == 3)
        return part_add_file(p, name, bytes, &sum);
    if (sscanf(line, "tablets %u %u %u", &r.table, &r.first, &r.count) == 3)
        return part_add_range(p, r.table, r.first, r.count);
    if (sscanf(line, "table %u %n", &number, &at) == 1 && at > 0)
        return part_add_table(p, number, line + at, strcspn(line + at, " "), e);
    if (sscanf(line, "part %u %u", &p->part, &p->parts) == 2)
        return status_of(p->part < p->parts && p->parts <= LIMIT_SHARDS);
    if (sscanf(line, "cut %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", &f->cut, &f->sequence, &f->rows,
               &at) == 3)
        return sizes_take(line + at, f);
    return line_take(p, line);
}

static int cut_line_take(struct part *p, const char *line)
{
    struct cut_facts *f = &p->facts;
    char name[PART_NAME_BYTES], file[PART_NAME_BYTES + 8];
    uint64_t bytes, sum;
    int at = 0;

    if (sscanf(line, "segment %63s %" SCNu64 " %16" SCNx64, name, &bytes, &sum) == 3) {
        snprintf(file, sizeof file, "journal/%s", name);
        return part_add_file(p, file, bytes, &sum);
    }
    if (sscanf(line, "rows %63s %" SCNu64, name, &bytes) == 2) {
        snprintf(file, sizeof file, "rows/%s", name);
        return part_add_file(p, file, bytes, NULL);
    }
    if (sscanf(line, "count %" SCNu64 "%n", &f->rows, &at) == 1)
        return sizes_take(line + at, f);
    if (sscanf(line, "cut %" SCNu64, &f->cut) == 1 ||
        sscanf(line, "sequence %" SCNu64, &f->sequence) == 1 ||
        sscanf(line, "existing %16" SCNx64, &f->existing.word[0]) == 1)
        return 0;
    return line_take(p, line);
}

/* The first line; *cut: of which kind it is. */
static int head_take(const char *line, bool *cut, struct err *e)
{
    *cut = strcmp(line, "shoal cut 2") == 0;
    if (*cut || strcmp(line, "shoal part 2") == 0)
        return 0;
    if (strcmp(line, "shoal part 1") == 0 || strcmp(line, "shoal cut 1") == 0)
        return err_set(e, SHOAL_E_VERSION, "a release before 0.2.0 wrote it; start that one");
    return SHOAL_E_CORRUPT;
}

int part_020_read(char *text, size_t bytes, struct part *out, struct err *e)
{
    char *rest = NULL;
    bool cut = false;

    if (!text_whole(text, bytes))
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s/" PART_MANIFEST " does not end in its own checksum; use another one",
                       out->dir);
    char *line = strtok_r(text, "\n", &rest);
    int rc = head_take(line == NULL ? "" : line, &cut, e);
    out->chained = cut;
    while (rc == 0 && (line = strtok_r(NULL, "\n", &rest)) != NULL)
        if (cut)
            rc = cut_line_take(out, line);
        else
            rc = part_line_take(out, line, e);
    if (rc == 0)
        return 0;
    if (rc == SHOAL_E_NOMEM)
        return err_set(e, rc, "no memory for %s/" PART_MANIFEST, out->dir);
    if (rc == SHOAL_E_VERSION)
        return err_wrap(e, rc, "%s/" PART_MANIFEST, out->dir);
    return err_set(e, SHOAL_E_CORRUPT, "%s/" PART_MANIFEST ": line \"%.40s\" is not understood",
                   out->dir, line == NULL ? "" : line);
}
