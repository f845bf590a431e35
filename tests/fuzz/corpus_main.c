/* corpus_main.c: runs a fuzz target over the files of its corpus, as a plain test in every
 * build. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    char path[4096];
    size_t files = 0;
    static uint8_t data[1 << 20];
    DIR *d = argc > 1 ? opendir(argv[1]) : NULL;
    if (d == NULL) {
        fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 64;
    }
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        FILE *f = fopen(path, "rb");
        if (f == NULL)
            continue;
        size_t n = fread(data, 1, sizeof data, f);
        fclose(f);
        /* An exact copy on the heap, so that a sanitizer sees a read past the end; for short inputs
         * also every prefix. */
        for (size_t length = n < 512 ? 0 : n; length <= n; length++) {
            uint8_t *copy = malloc(length + (length == 0));
            if (copy == NULL)
                return 70;
            memcpy(copy, data, length);
            (void)LLVMFuzzerTestOneInput(copy, length);
            free(copy);
        }
        files++;
    }
    closedir(d);
    printf("%zu files of the corpus passed\n", files);
    return files == 0;
}
