// Watch a ring all-reduce step by step: four ranks with one number a chunk, sums in letters.
// Four ranks a, b, c, d hold four chunks each; "da" in a chunk: what d held, plus what a holds.
// Run:     build/dev/examples/02_ring_step_by_step
// Prints:  step  rank a               rank b               rank c               rank d
//          start a a a a              b b b b              c c c c              d d d d
//          1     a a a da             ab b b b             c bc c c             d d cd d
//          2     a a cda da           ab b b dab           abc bc c c           d bcd cd d
//          3     a bcda cda da        ab b cdab dab        abc bc c dabc        abcd bcd cd d
//          4     abcd bcda cda da     ab bcda cdab dab     abc bc cdab dabc     abcd bcd cd dabc
//          5     abcd bcda cda dabc   abcd bcda cdab dab   abc bcda cdab dabc   abcd bcd cdab dabc
//          6     abcd bcda cdab dabc  abcd bcda cdab dabc  abcd bcda cdab dabc  abcd bcda cdab dabc
//          proved: every rank holds every contribution once

#include <cstdio>  // printf
#include <string>  // sums in letters
#include <vector>  // chunks

#include <gx/collective/proof.hpp>  // is_all_reduce
#include <gx/collective/ring.hpp>   // Ring

static_assert(gx::collective::is_all_reduce(gx::collective::Ring(4)));

int main() {
    constexpr gx::collective::Ring ring(4);
    const int n = ring.ranks();
    using Chunks = std::vector<std::string>;
    std::vector<Chunks> held;  // held[rank][chunk]
    for (int r = 0; r < n; ++r) held.emplace_back(std::size_t(n), std::string(1, char('a' + r)));

    std::printf("step  rank a               rank b               rank c               rank d\n");
    for (int step = 0; step <= ring.steps(); ++step) {
        if (step > 0) {
            const auto before = held;
            for (int r = 0; r < n; ++r) {
                const gx::Exchange x = ring.exchange(r, step - 1);
                const auto chunk = std::size_t(x.receive_chunk);
                const std::string& got = before[std::size_t(x.from)][chunk];
                std::string& mine = held[std::size_t(r)][chunk];
                mine = x.combine == gx::Combine::add ? got + mine : got;
            }
        }
        std::printf("%-5s", step == 0 ? "start" : std::to_string(step).c_str());
        for (const Chunks& chunks : held) {
            std::string text;
            for (const auto& c : chunks) text += " " + c;
            std::printf("%-21s", text.c_str());
        }
        std::printf("\n");
    }
    std::printf("proved: every rank holds every contribution once\n");
}
