// Random programs of groups, messages and collectives over one to four ranks: right ones give the
// serial result in every order, and one call less or changed on one rank is reported.
#include "nccl_double.hpp"

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <ostream>

namespace {

using namespace double_test;

constexpr int cells = 4;  // of one int, for each rank; a send reads one, a receive writes another

/// A step of all ranks: messages that go at once, or a collective over one cell.
struct Step {
    struct Message {
        int from = 0, to = 0, cell = 0;  ///< cell to cell + 1 of the receiver
    };
    std::vector<Message> messages{};
    int cell = 0;
    ncclRedOp_t op = ncclSum;
};
std::ostream& operator<<(std::ostream& out, const Step& s) {
    if (s.messages.empty()) return out << "all-reduce of " << s.cell << " by " << s.op;
    for (const auto& m : s.messages) out << m.from << "->" << m.to << " of " << m.cell << " ";
    return out;
}
using Program = std::vector<Step>;
using Cells = std::vector<std::vector<int>>;  // [rank][cell]

rc::Gen<Program> programs(int ranks) {
    return rc::gen::exec([=] {
        Program program(std::size_t(*rc::gen::inRange(1, 8)));
        for (Step& s : program) {
            s.cell = *rc::gen::inRange(0, cells);
            s.op = *rc::gen::element(ncclSum, ncclMax, ncclMin);
            if (*rc::gen::inRange(0, 3) == 0) continue;
            // Even cells are sent and odd ones received; no cell is written twice in a step.
            std::map<std::pair<int, int>, bool> taken;
            for (int m = *rc::gen::inRange(1, 6); m > 0; --m) {
                const Step::Message one{*rc::gen::inRange(0, ranks), *rc::gen::inRange(0, ranks),
                                        2 * *rc::gen::inRange(0, cells / 2)};
                if (!taken[{one.to, one.cell}]) s.messages.push_back(one);
                taken[{one.to, one.cell}] = true;
            }
        }
        return program;
    });
}

Cells serially(const Program& program, int ranks) {
    Cells v;
    for (int r = 0; r < ranks; ++r) v.push_back({r, 10 + r, 20 + r, 30 + r});
    for (const Step& s : program) {
        Cells next = v;
        for (const auto& m : s.messages)
            next[std::size_t(m.to)][std::size_t(m.cell) + 1] =
                v[std::size_t(m.from)][std::size_t(m.cell)];
        if (s.messages.empty()) {
            int all = v[0][std::size_t(s.cell)];
            for (int r = 1; r < ranks; ++r) {
                const int one = v[std::size_t(r)][std::size_t(s.cell)];
                all = s.op == ncclSum   ? int(unsigned(all) + unsigned(one))
                      : s.op == ncclMax ? std::max(all, one)
                                        : std::min(all, one);
            }
            for (auto& row : next) row[std::size_t(s.cell)] = all;
        }
        v = next;
    }
    return v;
}

/// One call of one rank that goes wrong.
struct Flaw {
    enum Kind { none, left_out, longer, other_type } kind = none;
    int call = -1;  ///< counted over all ranks
};

class Machine {
public:
    explicit Machine(int ranks, Flaw flaw = {}) : a_(ranks), flaw_(flaw) {
        x_ = a_.each([](int r) { return std::vector<int>{r, 10 + r, 20 + r, 30 + r, 0}; });
    }
    Cells run(const Program& program) {
        for (int r = 0; r < a_.count(); ++r)
            for (const Step& s : program) run(r, s);
        a_.wait();
        Cells v;
        for (int* const x : x_) v.push_back(a_.read(x, cells));
        return v;
    }
    [[nodiscard]] int calls() const { return calls_; }
    void destroy() { a_.destroy(); }

private:
    void run(int r, const Step& s) {
        int* const x = x_[std::size_t(r)];
        if (s.messages.empty()) {
            call([&](std::size_t n, ncclDataType_t type) {
                return ncclAllReduce(x + s.cell, x + s.cell, n, type, s.op, a_.comm(r),
                                     a_.stream(r));
            });
            return;
        }
        ok(ncclGroupStart());
        for (const auto& m : s.messages) {
            if (m.from == r)
                call([&](std::size_t n, ncclDataType_t type) {
                    return ncclSend(x + m.cell, n, type, m.to, a_.comm(r), a_.stream(r));
                });
            if (m.to == r)
                call([&](std::size_t n, ncclDataType_t type) {
                    return ncclRecv(x + m.cell + 1, n, type, m.from, a_.comm(r), a_.stream(r));
                });
        }
        ok(ncclGroupEnd());
    }
    template <class F>
    void call(F f) {
        const bool wrong = calls_++ == flaw_.call;
        if (wrong && flaw_.kind == Flaw::left_out) return;
        ok(f(wrong && flaw_.kind == Flaw::longer ? 2 : 1,
             wrong && flaw_.kind == Flaw::other_type ? ncclUint32 : ncclInt));
    }

    Ranks a_;
    std::vector<int*> x_{};
    Flaw flaw_;
    int calls_ = 0;
};

constexpr StreamProgress every_progress[] = {StreamProgress::late, StreamProgress::eager,
                                             StreamProgress::random};
void start(std::uint64_t seed, StreamProgress progress) {
    reset({.seed = seed, .progress = progress, .check_at_exit = false});
}

TEST(NcclPrograms, RightOnesGiveTheSerialResultInEveryOrder) {
    EXPECT_TRUE(rc::check("right programs", [](std::uint64_t seed) {
        const int ranks = *rc::gen::inRange(1, 5);
        const Program program = *programs(ranks);
        for (const StreamProgress progress : every_progress) {
            start(seed, progress);
            Machine m(ranks);
            RC_ASSERT(m.run(program) == serially(program, ranks));
            m.destroy();
        }
    }));
}

/// A call that is missing, longer or of another type is reported wherever another rank takes part.
TEST(NcclPrograms, AWrongCallOfOneRankIsReported) {
    EXPECT_TRUE(rc::check("wrong programs", [](std::uint64_t seed) {
        const int ranks = *rc::gen::inRange(2, 5);
        const Program program = *programs(ranks);
        start(seed, StreamProgress::random);
        Machine right(ranks);
        (void)right.run(program);
        const Flaw flaw{*rc::gen::element(Flaw::left_out, Flaw::longer, Flaw::other_type),
                        *rc::gen::inRange(0, right.calls())};
        for (const StreamProgress progress : every_progress) {
            start(seed, progress);
            const std::string text = sentence_of([&] { (void)Machine(ranks, flaw).run(program); });
            RC_ASSERT(!text.empty());
            RC_ASSERT(text.find("rank ") != std::string::npos);
        }
    }));
}

}  // namespace
