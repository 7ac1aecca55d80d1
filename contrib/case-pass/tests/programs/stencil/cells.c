/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <stdlib.h>

float *cells_of(n)
int n;
{
    float *cells = malloc(n * sizeof(float));
    int i;
    srand(7);
    for (i = 0; i < n; i++)
        cells[i] = rand() % 100;
    return cells;
}
