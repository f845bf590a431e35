/* fuzz_import_folder.c: a folder as `shoal export` writes it, of any bytes: export.json, then
 * model.safetensors or an npy file. The first two bytes are the length of export.json, the third
 * chooses the table (bit 0: a dense one) and what the other file is (bit 1: npy). All rows are read
 * twice, and the keys that a difference erases. */
#include "tests/fuzz/fuzz_file.h"

#include "deploy/cli/import.h"

enum { FLOATS = 4096 };

static void rows_read(struct import_source *s)
{
    static float row[FLOATS];
    struct import_key key;
    struct err e;
    uint64_t rows[2] = {0, 0};
    char place[LIMIT_PATH + 64];
    SHOAL_ASSERT(s->floats <= FLOATS);
    for (int k = 0; k < 2; k++) {
        while (rows[k] < 100000 && s->next(s, &key, row, &e) == 1)
            rows[k]++;
        s->place(s, place, sizeof place);
        s->rewind(s);
    }
    SHOAL_ASSERT(rows[0] == rows[1] && s->sum(s) == s->checksum);
}

static void folder_write(const uint8_t *data, size_t size, size_t about, bool npy)
{
    char path[LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%s/export.json", fuzz_dir());
    fuzz_file(path, data, about);
    for (int k = 0; k < 2; k++) {
        (void)snprintf(path, sizeof path, "%s/%s", fuzz_dir(),
                       k == 0 ? "model.safetensors" : "emb.keys.npy");
        if ((k == 1) == npy)
            fuzz_file(path, data + about, size - about);
        else
            (void)unlink(path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct table_schema sparse = {.name = "emb",
                                         .width = 3,
                                         .zero_first = 1,
                                         .tablet_bits = 4,
                                         .rules.stats = true,
                                         .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.1f}},
                               dense = {.name = "dense",
                                        .width = 8,
                                        .tablet_bits = 0,
                                        .dense = true,
                                        .optimizer = {.kind = OPT_ADAM, .lr = 0.1f}};
    static struct legend names;
    struct import_erased erased;
    struct import_source *s = NULL;
    struct err e = {0};
    if (size < 3)
        return 0;
    const size_t about = data[0] + 256u * data[1];
    const unsigned mode = data[2];
    data += 3;
    size -= 3;
    if (about > size)
        return 0;
    if (names.count[LEGEND_TENSORS] == 0) {
        SHOAL_ASSERT(legend_add(&names, LEGEND_TENSORS, "w", "", "3x4", &e) == 0);
        names.name[LEGEND_TENSORS][0].number = 2;
    }
    folder_write(data, size, about, (mode & 2) != 0);
    struct import_line l = {
        .path = fuzz_dir(), .schema = (mode & 1) != 0 ? &dense : &sparse, .names = &names};
    int rc = (mode & 1) != 0 ? import_dense_open(&l, &s, &e) : import_arrays_open(&l, &s, &e);
    if (rc == 0) {
        rows_read(s);
        s->close(s);
    }
    json_free(l.fields);
    l.fields = NULL;
    (void)import_erased_read(&l, &erased, &e);
    import_erased_free(&erased);
    return 0;
}
