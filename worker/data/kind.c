/* kind.c: recognizes files by their first bytes. */
#include "worker/data/kind.h"
#include "worker/data/framing.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define COMMAND(words) "in its place name a command that unpacks it: {cmd: \"" words "\"}"
#define UNPACK "unpack it once (gunzip, zstd -d, bunzip2, unxz)"
#define PICTURE "name the file of its rows"
#define CSV_BY(reader)                                                                             \
    "write it as csv first, as pandas does: " reader "(FILE).to_csv(OUT, index=False)"

static const struct {
    const char *magic;
    uint8_t bytes;
    uint16_t at;
    const char *is, *remedy;
} kinds[] = {
    {"PK\x03\x04", 4, 0, "a zip archive (.zip, .xlsx, .npz)", COMMAND("unzip -p FILE")},
    {"\x04\x22\x4d\x18", 4, 0, "packed by lz4", COMMAND("lz4 -dc FILE")},
    {"7z\xbc\xaf\x27\x1c", 6, 0, "a 7z archive", COMMAND("7z x -so FILE")},
    {"\x1f\x9d", 2, 0, "packed by compress", COMMAND("gzip -dc FILE")},
    {"\x1f\x8b", 2, 0, "packed twice, by gzip inside", UNPACK},
    {"\x28\xb5\x2f\xfd", 4, 0, "packed twice, by zstd inside", UNPACK},
    {"BZh91AY&SY", 10, 0, "packed twice, by bzip2 inside", UNPACK},
    {"\xfd\x37zXZ", 5, 0, "packed twice, by xz inside", UNPACK},
    {"ustar", 5, 257, "a tar archive", COMMAND("tar xOf FILE")},
    {"PAR1", 4, 0, "parquet", CSV_BY("read_parquet")},
    {"ORC", 3, 0, "ORC", CSV_BY("read_orc")},
    {"ARROW1", 6, 0, "Arrow (feather)", CSV_BY("read_feather")},
    {"\x89HDF", 4, 0, "HDF5", CSV_BY("read_hdf")},
    {"\x80\x04\x95", 3, 0, "a pickle of Python", CSV_BY("read_pickle")},
    {"\x80\x05\x95", 3, 0, "a pickle of Python", CSV_BY("read_pickle")},
    {"\xd0\xcf\x11\xe0", 4, 0, "an Excel workbook", CSV_BY("read_excel")},
    {"Obj\x01", 4, 0, "Avro", "write it as csv first"},
    {"SQLite format 3", 15, 0, "an SQLite database", "write the table as csv first (sqlite3 -csv)"},
    {"\x93NUMPY", 6, 0, "an array of NumPy", "write it as csv first (numpy.savetxt)"},
    {"\xff\xfe\0\0", 4, 0, "text in UTF-32", COMMAND("iconv -f UTF-32 -t UTF-8 FILE")},
    {"\x89PNG", 4, 0, "a picture (png)", PICTURE},
    {"\xff\xd8\xff", 3, 0, "a picture (jpeg)", PICTURE},
    {"GIF8", 4, 0, "a picture (gif)", PICTURE},
    {"%PDF-", 5, 0, "a PDF document", "name the file that its rows are from"},
    {"<!DOCTYPE", 9, 0, "a web page", "the download went wrong: fetch the file again"},
    {"<html", 5, 0, "a web page", "the download went wrong: fetch the file again"},
    {"version https://git-lfs", 23, 0, "a pointer of git lfs",
     "fetch the file itself: git lfs pull"},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static int refuse(const char *name, const char *is, const char *remedy, struct err *e)
{
    return err_set(e, SHOAL_E_DATA, "%s is %s, which no data.format reads; %s", name, is, remedy);
}

int kind_check(const char *name, const char *data, size_t bytes, struct err *e)
{
    if (framing_is_record(data, bytes))
        return 0;
    for (size_t i = 0; i < KINDS; i++)
        if (bytes >= (size_t)kinds[i].at + kinds[i].bytes &&
            memcmp(data + kinds[i].at, kinds[i].magic, kinds[i].bytes) == 0)
            return refuse(name, kinds[i].is, kinds[i].remedy, e);
    return 0;
}

/* ---- a line of another format ---------------------------------------------------------------- */

static uint32_t count_of(const char *line, size_t bytes, char c)
{
    uint32_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += line[i] == c;
    return count;
}

/* The delimiter that gives the most columns; '\0': none of the usual ones occurs. */
static char parted_by(const char *line, size_t bytes, uint32_t *count)
{
    static const char used[] = {'\t', ',', ';', '|', '\x01'};
    char best = '\0';
    *count = 0;
    for (size_t i = 0; i < sizeof used; i++) {
        uint32_t n = count_of(line, bytes, used[i]);
        if (n > *count) {
            *count = n;
            best = used[i];
        }
    }
    return best;
}

static size_t digits_at(const char *p, const char *end)
{
    const char *from = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return (size_t)(p - from);
}

/* The number of colons in the second word, "idx:value" or "field:idx:value", if digits come before
 * each; 0: it is no such word. */
static uint32_t colons_of_entry(const char *line, size_t bytes)
{
    const char *end = line + bytes, *p = memchr(line, ' ', bytes);
    uint32_t colons = 0;
    while (p != NULL && p < end && *p == ' ')
        p++;
    for (size_t n;
         p != NULL && p < end && (n = digits_at(p, end)) > 0 && p + n < end && p[n] == ':';
         p += n + 1)
        colons++;
    return colons;
}

static bool begins(const char *line, size_t bytes, const char *with)
{
    size_t n = strlen(with);
    return bytes >= n && memcmp(line, with, n) == 0;
}

static void delimiter_hint(char found, uint32_t count, char out[KIND_HINT_BYTES])
{
    char one[4] = {'"', found, '"', '\0'};
    const char *called = one, *word = one;
    if (found == '\t') {
        called = "tabs";
        word = "tab";
    } else if (found == '\x01') {
        called = "bytes 1";
        word = "\"\\x01\"";
    }
    (void)snprintf(out, KIND_HINT_BYTES,
                   "%u columns are parted by %s here: it is csv with data.delimiter: %s", count + 1,
                   called, word);
}

/* EVENTS_MAGIC without its version. */
#define EVENTS_WORD "SHOALEV"

void kind_hint(const char *line, size_t bytes, char delimiter, char out[KIND_HINT_BYTES])
{
    uint32_t count, colons = colons_of_entry(line, bytes);
    char found = parted_by(line, bytes, &count);
    const char *said = "";
    out[0] = '\0';
    if (begins(line, bytes, EVENTS_WORD))
        said = "it is an event file, data.format: events";
    else if (framing_is_record(line, bytes))
        said = "it is a TFRecord file, data.format: tfrecord";
    else if (begins(line, bytes, "sep="))
        said = "the first line is Excel's `sep=`: take it out (sed 1d)";
    else if (begins(line, bytes, "# "))
        said = "the first line is a comment: take comments out (grep -v '^#')";
    else if (begins(line, bytes, "{\"") || begins(line, bytes, "[{"))
        said = "it is JSON, which no data.format reads: write it as csv first (jq -r with @csv)";
    else if (delimiter == '\0' || count_of(line, bytes, delimiter) > 0)
        said = "";
    else if (found == '\t' && count == 39)
        said = "40 columns between tabs: it looks like Criteo's log, data.format: criteo";
    else if (colons == 1)
        said = "it looks like libsvm, data.format: libsvm";
    else if (colons == 2)
        said = "it looks like libffm, data.format: libffm";
    else if (found != '\0')
        delimiter_hint(found, count, out);
    if (said[0] != '\0')
        (void)snprintf(out, KIND_HINT_BYTES, "%s", said);
}
