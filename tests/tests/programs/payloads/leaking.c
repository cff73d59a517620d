#include <stdio.h>
#include <stdlib.h>
int answer(int n) { return n * 7; }
int main(void) { char *lost = malloc(32); lost[0] = 1; printf("%d\n", answer(6) + lost[0] - 1); lost = 0; return 0; }
