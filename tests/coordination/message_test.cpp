#include <gx/coordination/message.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx::coordination;

std::vector<std::byte> bytes_of(std::initializer_list<int> numbers) {
    std::vector<std::byte> bytes;
    for (const int n : numbers) bytes.push_back(static_cast<std::byte>(n));
    return bytes;
}
/// A header by hand.
std::vector<std::byte> header(int version, int kind, std::uint32_t size) {
    auto bytes = bytes_of({'g', 'x', 'c', 'o', version, 0, kind, 0});
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(size >> (8 * i)));
    return bytes;
}
/// The problem that a reader has with these bytes; "" and no message: it waits for more.
std::string problem_of(const std::vector<std::byte>& bytes, std::size_t limit = body_bytes_max) {
    MessageReader reader(limit);
    reader.feed(bytes);
    while (reader.next()) {
    }
    return reader.problem();
}

// ---- Bytes worked by hand --------------------------------------------------------------
TEST(Message, AHelloByteByByte) {
    const Hello hello{.run_id = "id",
                      .rank = 3,
                      .ranks = 258,
                      .local_rank = -1,
                      .process = 0x0102030405060708,
                      .host = "a"};
    EXPECT_EQ(encode(hello), bytes_of({'g', 'x', 'c', 'o', 7,   0,   1, 0, 31, 0, 0, 0,  // header
                                       2,   0,   0,   0,   'i', 'd',                     // run_id
                                       3,   0,   0,   0,   2,   1,   0, 0,  // rank, ranks
                                       255, 255, 255, 255,                  // local_rank
                                       8,   7,   6,   5,   4,   3,   2, 1,  // process
                                       1,   0,   0,   0,   'a'}));          // host
}
TEST(Message, ACauseByteByByte) {
    const Cause cause{.reason = Reason::late,
                      .rank = 2,
                      .observer = 1,
                      .exit_status = 9,
                      .operation = {"ring", 5, -1},
                      .text = "no"};
    EXPECT_EQ(encode(cause),
              bytes_of({'g', 'x', 'c', 'o', 7,   0,   9,   0,   43, 0, 0, 0,  // header
                        4,                                                    // reason
                        2,   0,   0,   0,   1,   0,   0,   0,                 // rank, observer
                        9,   0,   0,   0,                                     // exit_status
                        4,   0,   0,   0,   'r', 'i', 'n', 'g',               // operation
                        5,   0,   0,   0,   0,   0,   0,   0,                 // step
                        255, 255, 255, 255, 255, 255, 255, 255,               // bucket
                        2,   0,   0,   0,   'n', 'o'}));                      // text
}
TEST(Message, EveryKindHasItsNumber) {
    const std::vector<Message> in_order{
        Hello{}, Welcome{}, Refused{}, RunTerms{}, Agreed{}, Alive{},   Failed{},    Blamed{},
        Cause{}, Leaving{}, Left{},    Ended{},    Note{},   Staying{}, Regrouped{}, Waiting{}};
    ASSERT_EQ(in_order.size(), std::variant_size_v<Message>);
    for (std::size_t i = 0; i < in_order.size(); ++i)
        EXPECT_EQ(encode(in_order[i])[6], static_cast<std::byte>(i + 1));
}

// ---- There and back, in pieces of any size -----------------------------------------------
rc::Gen<Message> any_message() {
    return rc::gen::exec([]() -> Message {
        const auto number = [] { return *rc::gen::arbitrary<int>(); };
        const auto wide = [] { return *rc::gen::arbitrary<std::uint64_t>(); };
        const auto nanoseconds = [] {
            return std::chrono::nanoseconds(*rc::gen::inRange<std::int64_t>(0, 1LL << 60));
        };
        const auto text = [] {
            return *rc::gen::container<std::string>(rc::gen::inRange('\x20', '\x7e'));
        };
        const auto operation = [&] {
            return gx::Operation{gx::Label(text().substr(0, 63)),
                                 *rc::gen::arbitrary<std::int64_t>(),
                                 *rc::gen::arbitrary<std::int64_t>()};
        };
        switch (*rc::gen::inRange(0, 16)) {
            case 0: return Hello{text(), number(), number(), number(), wide(), text()};
            case 1: {
                Welcome welcome;
                for (int i = *rc::gen::inRange(0, 5); i > 0; --i)
                    welcome.members.push_back({text(), wide(), number()});
                return welcome;
            }
            case 2: return Refused{text()};
            case 3: return RunTerms{text(), wide(), text(), number(), text()};
            case 4: return Agreed{};
            case 5: return Alive{operation()};
            case 6: return Failed{number(), operation(), text()};
            case 7: return Blamed{number(), operation(), nanoseconds()};
            case 8:
                return Cause{static_cast<Reason>(*rc::gen::inRange(1, 7)),
                             number(),
                             number(),
                             number(),
                             operation(),
                             text()};
            case 9: return Leaving{};
            case 10: return Left{number()};
            case 11: return Ended{number()};
            case 14: {
                Waiting waiting{{}, operation(), {nanoseconds(), nanoseconds()}};
                for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
                    waiting.waits.push_back(
                        {*rc::gen::nonEmpty<std::vector<int>>(), nanoseconds()});
                return waiting;
            }
            case 12: return Staying{*rc::gen::arbitrary<std::int64_t>()};
            case 13:
                return Regrouped{*rc::gen::arbitrary<std::int64_t>(),
                                 *rc::gen::arbitrary<std::vector<int>>()};
            default:
                return Note{number(), *rc::gen::map(rc::gen::arbitrary<std::vector<std::uint8_t>>(),
                                                    [](const auto& v) {
                                                        std::vector<std::byte> bytes;
                                                        for (const auto b : v)
                                                            bytes.push_back(std::byte{b});
                                                        return bytes;
                                                    })};
        }
    });
}
TEST(Message, ComesBackWhole) {
    EXPECT_TRUE(rc::check([] {
        const auto sent = *rc::gen::container<std::vector<Message>>(any_message());
        std::vector<std::byte> bytes;
        for (const Message& m : sent) {
            const auto more = encode(m);
            bytes.insert(bytes.end(), more.begin(), more.end());
        }
        MessageReader reader;
        std::vector<Message> got;
        const auto piece = *rc::gen::inRange<std::size_t>(1, 40);
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            reader.feed(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
            while (auto m = reader.next()) got.push_back(std::move(*m));
        }
        RC_ASSERT(reader.problem().empty());
        RC_ASSERT(!reader.inside_message());
        RC_ASSERT(got == sent);
    }));
}

// ---- Bad input ---------------------------------------------------------------------------
TEST(Message, EveryCutLeavesThemInsideAMessage) {
    const auto whole = encode(Failed{3, {"ring", 1, 2}, "disk full"});
    for (std::size_t size = 1; size < whole.size(); ++size) {
        MessageReader reader;
        reader.feed(std::span(whole).first(size));
        EXPECT_FALSE(reader.next());
        EXPECT_TRUE(reader.inside_message()) << size;
        EXPECT_EQ(reader.problem(), "");
    }
}
TEST(Message, GarbageIsAProblemAtTheFirstWrongByte) {
    EXPECT_NE(problem_of(bytes_of({'G'})), "");
    EXPECT_NE(problem_of(bytes_of({'g', 'x', 'c', 'p'})), "");
    EXPECT_EQ(problem_of(bytes_of({'g', 'x', 'c', 'o'})), "");
}
TEST(Message, AnotherVersionIsNamedWithBoth) {
    const std::string problem = problem_of(header(protocol_version + 1, 1, 0));
    EXPECT_NE(problem.find("version " + std::to_string(protocol_version + 1)), problem.npos)
        << problem;
    EXPECT_NE(problem.find("version " + std::to_string(protocol_version)), problem.npos) << problem;
}
TEST(Message, ARefusalOfAnotherVersionCanBeRead) {
    auto bytes = encode(Refused{"too old"});
    bytes[4] = std::byte{protocol_version + 1};
    MessageReader reader;
    reader.feed(bytes);
    EXPECT_EQ(reader.next(), Message(Refused{"too old"}));
}
TEST(Message, KindsThatDoNotExist) {
    for (const int kind : {0, 17, 255})
        EXPECT_NE(problem_of(header(protocol_version, kind, 0)).find("unknown kind"),
                  std::string::npos)
            << kind;
}
TEST(Message, ALengthBeyondTheLimitIsRefusedBeforeItsBody) {
    EXPECT_EQ(problem_of(header(protocol_version, 3, 4096), 4096), "");
    EXPECT_NE(problem_of(header(protocol_version, 3, 4097), 4096).find("4097 bytes, at most 4096"),
              std::string::npos);
    EXPECT_NE(problem_of(header(protocol_version, 3, 0xffffffff)), "");
}
TEST(Message, ABodyThatIsTooShortOrTooLong) {
    auto longer = encode(Left{1});
    longer[8] = std::byte{5};
    longer.push_back(std::byte{0});
    EXPECT_NE(problem_of(longer).find("kind 11 is not whole"), std::string::npos);
    auto shorter = header(protocol_version, 11, 3);
    shorter.resize(15);
    EXPECT_NE(problem_of(shorter).find("kind 11 is not whole"), std::string::npos);
}
TEST(Message, AStringOrListThatIsLongerThanItsBody) {
    auto text = header(protocol_version, 3, 4);
    for (int i = 0; i < 4; ++i) text.push_back(std::byte{255});
    EXPECT_NE(problem_of(text).find("not whole"), std::string::npos);
    text[6] = std::byte{2};  // a list of members
    EXPECT_NE(problem_of(text).find("not whole"), std::string::npos);
}
TEST(Message, AnOperationBeyondALabelAndAReasonThatDoesNotExist) {
    auto alive = header(protocol_version, 6, 4 + 64 + 16);
    for (const int c : {64, 0, 0, 0}) alive.push_back(static_cast<std::byte>(c));
    alive.resize(alive.size() + 80, std::byte{'a'});
    EXPECT_NE(problem_of(alive).find("not whole"), std::string::npos);
    for (const int reason : {0, 7}) {
        auto cause = encode(Cause{.reason = Reason::error, .text = "x"});
        cause[header_bytes] = static_cast<std::byte>(reason);
        EXPECT_NE(problem_of(cause).find("not whole"), std::string::npos);
    }
}
TEST(Message, WaitsThatNoRankHas) {
    const auto problem = [](const Waiting& waiting) { return problem_of(encode(waiting)); };
    EXPECT_EQ(problem({std::vector<Wait>(waits_max, {{1}, {}})}), "");
    EXPECT_NE(problem({std::vector<Wait>(waits_max + 1, {{1}, {}})}).find("not whole"),
              std::string::npos);
    EXPECT_NE(problem({{{{}, {}}}}), "") << "for none";
    EXPECT_NE(problem({{{{1}, std::chrono::nanoseconds(-1)}}}), "");
    EXPECT_NE(problem({{}, {}, {std::chrono::nanoseconds(-1), {}}}), "");
    EXPECT_NE(problem({{}, {}, {{}, std::chrono::nanoseconds(-1)}}), "");
    EXPECT_NE(problem({{}, {}, {std::chrono::nanoseconds::max(), {}}}), "") << "beyond all sums";
    EXPECT_NE(problem_of(encode(Blamed{1, {}, std::chrono::nanoseconds(-1)})), "");
    auto many = encode(Waiting{{{{7}, {}}}});
    many[header_bytes + 4 + 8] = std::byte{255};  // peers of the wait
    EXPECT_NE(problem_of(many), "");
}
TEST(Message, RandomBytesNeverGiveMoreThanTheyHold) {
    EXPECT_TRUE(rc::check([](const std::vector<unsigned char>& noise, unsigned char kind) {
        auto bytes = header(protocol_version, kind % 16, static_cast<std::uint32_t>(noise.size()));
        for (const unsigned char c : noise) bytes.push_back(static_cast<std::byte>(c));
        MessageReader reader;
        reader.feed(bytes);
        const auto message = reader.next();
        RC_ASSERT(message.has_value() != !reader.problem().empty());
        if (message) RC_ASSERT(!reader.inside_message());
    }));
}
TEST(Message, LongSentencesAreCutAndControlCharactersReplaced) {
    MessageReader reader;
    reader.feed(encode(Refused{std::string(text_bytes_max + 1, 'x')}));
    const auto cut = std::get<Refused>(*reader.next()).text;
    EXPECT_EQ(cut.size(), text_bytes_max);
    EXPECT_TRUE(cut.ends_with("x..."));
    reader.feed(encode(Refused{"a\x1b[31m\nb\x7f"}));
    EXPECT_EQ(std::get<Refused>(*reader.next()).text, "a?[31m\nb?");
}
TEST(Message, OperationsAsWords) {
    EXPECT_EQ(describe({"all-reduce", 7, 3}), "step 7, bucket 3, operation all-reduce");
    EXPECT_EQ(describe({"collect gradient", 7}), "step 7, operation collect gradient");
    EXPECT_EQ(describe({}), "no operation reported yet");
}
TEST(Message, TimesAsWords) {
    using namespace std::chrono_literals;
    EXPECT_EQ(in_seconds(60s), "60 s");
    EXPECT_EQ(in_seconds(1149063210ns), "1.15 s");
    EXPECT_EQ(in_seconds(12345600ms), "12345.6 s");
    EXPECT_EQ(in_seconds(1234567891ms), "1234567.89 s");
    EXPECT_EQ(in_seconds(100s), "100 s");
    EXPECT_EQ(in_seconds(0s), "0 s");
    EXPECT_EQ(in_seconds(1ms), "0.001 s");
}

}  // namespace
