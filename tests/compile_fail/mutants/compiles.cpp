// expect: gx: a sentence
int main() {}
