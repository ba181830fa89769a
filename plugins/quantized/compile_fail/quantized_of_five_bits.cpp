// expect: gx: Quantized sends integers of 8 or of 4 bits.
// expect: Fix: write 'Quantized<8>' or 'Quantized<4>'.
#include <gx/quantized/reducer.hpp>

gx::Quantized<5> reducer;
