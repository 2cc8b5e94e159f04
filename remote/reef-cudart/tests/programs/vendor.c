// A program with NVIDIA's runtime in it asks the driver for a private table.
#include "registered.h"

int cuGetExportTable(const void **, const unsigned char *);

int main(void) {
    const unsigned char uuid[16] = {0x6b, 0xd5, 0xfb, 0x6c};
    const void *table = &table;
    EXPECT(801, cuGetExportTable(&table, uuid));
    EXPECT(801, cuGetExportTable(&table, uuid));
    CHECK(table != 0);
    puts("all as it must be");
    return 0;
}
