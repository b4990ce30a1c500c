// json.cc -- json.h over simdjson's document ("DOM") interface.
//
// The DOM parser checks every byte of a document before anything is read from it, with code chosen
// at run time for the CPU. The on-demand interface checks only what is visited; made to visit
// everything it took 175, 223 and 360 ns for objects of 70, 87 and 211 bytes, against 106, 132 and
// 178 ns here (-O2, AVX2 machine).
//
// A json_value carries simdjson's own two words in `ref`; a JSON_NUMBER has its bits in `integer`,
// and in `boolean` whether they are a double's. A json_iter carries simdjson's iterator and its
// end. All are plain data that point into the parser.
#include "base/json.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

#include <simdjson.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define must(x) (__builtin_expect(!!(x), 1) ? (void)0 : must_failed(#x, __FILE__, __LINE__))
extern "C" [[noreturn]] void must_failed(const char *what, const char *file, int line);

namespace dom = simdjson::dom;

// Documents up to here find their memory ready; 64 KiB of text is 0.9 MiB of parser.
static constexpr size_t KEPT_BYTES = 64 * 1024;

struct json_parser {
    dom::parser parser;
    size_t text_bytes_max;
    simdjson::error_code error;
    char *text; // what json_text or json_source has written
    size_t text_capacity;
    bytes source;   // the document
    size_t tape_at; // a token of it by its place on simdjson's tape,
    size_t token;   // and among the tokens of the document
};

template <typename T> static void pack(uint64_t *ref, const T &value)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(uint64_t));
    memcpy(ref, &value, sizeof value);
}

template <typename T> static T unpack(const uint64_t *ref, T value)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(uint64_t));
    memcpy(static_cast<void *>(&value), ref, sizeof value);
    return value;
}

static_assert(JSON_PADDING >= simdjson::SIMDJSON_PADDING);

static void text_release(json_parser *self)
{
    free(self->text);
    self->text = nullptr;
    self->text_capacity = 0;
}

// Both halves are allocated here: left to itself simdjson grows them, and never shrinks them. Its
// depth counts the document itself too.
static void reserve(json_parser *self, size_t text_bytes)
{
    if (self->text_capacity > 2 * KEPT_BYTES && text_bytes <= KEPT_BYTES) text_release(self);
    size_t have = self->parser.capacity();
    bool too_small = text_bytes > have;
    bool too_large = have > KEPT_BYTES && text_bytes <= KEPT_BYTES;
    if (!too_small && !too_large) return;

    size_t want = KEPT_BYTES;
    while (want < text_bytes)
        want *= 2;
    must(self->parser.allocate(want, JSON_DEPTH_MAX + 1) == simdjson::SUCCESS);
    must(self->parser.doc.allocate(want) == simdjson::SUCCESS);
}

json_parser *json_parser_new(size_t text_bytes_max)
{
    json_parser *self = new (std::nothrow) json_parser();
    must(self != nullptr);
    self->text_bytes_max = text_bytes_max;
    reserve(self, KEPT_BYTES);
    return self;
}

void json_parser_free(json_parser *self)
{
    if (self) text_release(self);
    delete self;
}

static void value_of(dom::element element, json_value *out)
{
    pack(out->ref, element);
    switch (element.type()) {
    case dom::element_type::NULL_VALUE:
        out->type = JSON_NULL;
        break;
    case dom::element_type::BOOL:
        out->type = JSON_BOOL;
        out->boolean = element.get_bool().value_unsafe();
        break;
    case dom::element_type::INT64:
        out->type = JSON_INT;
        out->integer = element.get_int64().value_unsafe();
        break;
    case dom::element_type::UINT64: // only past INT64_MAX
        out->type = JSON_NUMBER;
        out->boolean = false;
        out->integer = static_cast<int64_t>(element.get_uint64().value_unsafe());
        break;
    case dom::element_type::DOUBLE: {
        double number = element.get_double().value_unsafe();
        out->type = JSON_NUMBER;
        out->boolean = true;
        memcpy(&out->integer, &number, sizeof number);
        break;
    }
    case dom::element_type::STRING: {
        std::string_view text = element.get_string().value_unsafe();
        out->type = JSON_STRING;
        out->string = bytes{text.data(), text.size()};
        break;
    }
    case dom::element_type::OBJECT:
        out->type = JSON_OBJECT;
        pack(out->ref, element.get_object().value_unsafe());
        break;
    case dom::element_type::ARRAY:
        out->type = JSON_ARRAY;
        pack(out->ref, element.get_array().value_unsafe());
        break;
    }
}

// The library is not built with the sanitizer, so only this sees a text whose padding is missing.
static void check_padding(bytes text)
{
#ifdef __SANITIZE_ADDRESS__
    void *start = const_cast<char *>(text.data);
    must(__asan_region_is_poisoned(start, text.size + JSON_PADDING) == nullptr);
#else
    (void)text;
#endif
}

bool json_parse(json_parser *self, bytes text, json_value *root_out)
{
    self->error = simdjson::CAPACITY;
    if (text.size > self->text_bytes_max) return false;
    check_padding(text);
    reserve(self, text.size);

    dom::element root;
    self->error = self->parser.parse(text.data, text.size, false).get(root);
    if (self->error) return false;
    self->source = text;
    self->tape_at = 0;
    value_of(root, root_out);
    return true;
}

const char *json_problem(const json_parser *self)
{
    switch (self->error) {
    case simdjson::CAPACITY:
        return "it is too long";
    case simdjson::DEPTH_ERROR:
        return "it nests too deeply";
    case simdjson::EMPTY:
        return "it is empty";
    case simdjson::NUMBER_ERROR:
        return "a number is malformed or beyond 64 bits";
    case simdjson::STRING_ERROR:
    case simdjson::UNESCAPED_CHARS:
        return "a string has a bad escape or an unescaped control character";
    case simdjson::UNCLOSED_STRING:
        return "a string is not closed";
    case simdjson::UTF8_ERROR:
        return "it is not UTF-8";
    default:
        return "it is malformed";
    }
}

// Fields mostly come in the order in which they are asked for, so the search for a key begins
// after the name that matched last.
static size_t name_find(const bytes *names, size_t count, size_t from, std::string_view key)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = from + i < count ? from + i : from + i - count;
        if (names[at].size == key.size() && memcmp(names[at].data, key.data(), key.size()) == 0)
            return at;
    }
    return count;
}

size_t json_pick(const json_value *object, const bytes *names, size_t names_count,
                 json_value *values_out)
{
    size_t others = 0;
    for (size_t i = 0; i < names_count; i++)
        values_out[i].type = JSON_ABSENT;
    if (object->type != JSON_OBJECT) return 0;

    size_t from = 0;
    dom::object fields = unpack(object->ref, dom::object());
    for (dom::object::iterator at = fields.begin(), end = fields.end(); at != end; ++at) {
        size_t index = name_find(names, names_count, from, at.key());
        if (index == names_count) {
            others++;
            continue;
        }
        value_of(at.value(), &values_out[index]);
        from = index + 1;
    }
    return others;
}

void json_each(const json_value *container, json_iter *iter)
{
    iter->over = container->type;
    iter->key = bytes{nullptr, 0};
    if (container->type == JSON_OBJECT) {
        dom::object fields = unpack(container->ref, dom::object());
        pack(iter->ref, fields.begin());
        pack(iter->ref + 2, fields.end());
    } else if (container->type == JSON_ARRAY) {
        dom::array elements = unpack(container->ref, dom::array());
        pack(iter->ref, elements.begin());
        pack(iter->ref + 2, elements.end());
    }
}

template <typename T> static bool step(json_iter *iter)
{
    T at = unpack(iter->ref, T());
    if (at == unpack(iter->ref + 2, T())) return false;
    if constexpr (std::is_same_v<T, dom::object::iterator>) {
        iter->key = bytes{at.key().data(), at.key().size()};
        value_of(at.value(), &iter->value);
    } else {
        value_of(*at, &iter->value);
    }
    pack(iter->ref, ++at);
    return true;
}

bool json_next(json_iter *iter)
{
    if (iter->over == JSON_OBJECT) return step<dom::object::iterator>(iter);
    if (iter->over == JSON_ARRAY) return step<dom::array::iterator>(iter);
    return false;
}

// ---- json_text ----

// Where it writes: from `at` to `end` of the parser's text buffer.
struct json_writer {
    json_parser *parser;
    char *at;
    char *end;
};

static constexpr size_t NUMBER_ROOM = 40; // any integer; any shortest double, and ".0"
static constexpr size_t ESCAPE_MAX = 6;   // bytes that escaping makes of one
static constexpr size_t PIECE_BYTES = 1024;
static constexpr size_t TEXT_BYTES_MIN = 4096;

static __attribute__((noinline)) void text_grow(json_writer *out, size_t size)
{
    json_parser *self = out->parser;
    size_t used = static_cast<size_t>(out->at - self->text);
    size_t want = self->text_capacity ? self->text_capacity : TEXT_BYTES_MIN;
    while (want - used < size)
        want *= 2;
    self->text = static_cast<char *>(realloc(self->text, want));
    must(self->text != nullptr);
    self->text_capacity = want;
    out->at = self->text + used;
    out->end = self->text + want;
}

// Returns where `size` more bytes can go. The caller writes there and advances `at`.
static inline char *room(json_writer *out, size_t size)
{
    if (static_cast<size_t>(out->end - out->at) < size) text_grow(out, size);
    return out->at;
}

static inline void write_char(json_writer *out, char byte)
{
    *room(out, 1) = byte;
    out->at++;
}

static inline void write_word(json_writer *out, const char *word, size_t size)
{
    memcpy(room(out, size), word, size);
    out->at += size;
}

// Whether a byte of the eight is '"', '\\' or below 0x20. A byte after one that is may be found
// by mistake, never missed; bytes of 0x80 and above are none.
static bool any_to_escape(uint64_t eight)
{
    constexpr uint64_t ones = 0x0101010101010101u;
    constexpr uint64_t highs = 0x80 * ones;
    uint64_t quote = eight ^ ('"' * ones);
    uint64_t backslash = eight ^ ('\\' * ones);
    uint64_t found = (eight - 0x20 * ones) | (quote - ones) | (backslash - ones);
    return (found & ~eight & highs) != 0;
}

static char *escape(char *at, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    static const char letters[] = "btn?fr"; // for 8 to 13; 11 has none
    *at++ = '\\';
    if (byte >= 0x20) {
        *at++ = static_cast<char>(byte);
    } else if (byte >= 8 && byte <= 13 && byte != 11) {
        *at++ = letters[byte - 8];
    } else {
        memcpy(at, "u00", 3);
        at[3] = digits[byte >> 4];
        at[4] = digits[byte & 15];
        at += 5;
    }
    return at;
}

static char *escape_all(char *at, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x20 || byte == '"' || byte == '\\')
            at = escape(at, byte);
        else
            *at++ = text[i];
    }
    return at;
}

static char *write_piece(char *at, const char *text, size_t size)
{
    size_t done = 0;
    for (uint64_t eight; done + sizeof eight <= size; done += sizeof eight) {
        memcpy(&eight, text + done, sizeof eight);
        if (any_to_escape(eight)) {
            at = escape_all(at, text + done, sizeof eight);
        } else {
            memcpy(at, &eight, sizeof eight);
            at += sizeof eight;
        }
    }
    return escape_all(at, text + done, size - done);
}

// The string is escaped in pieces, so that a long one does not ask for room to escape all of it.
static void write_string(json_writer *out, std::string_view text)
{
    write_char(out, '"');
    for (size_t done = 0; done < text.size();) {
        size_t size = text.size() - done < PIECE_BYTES ? text.size() - done : PIECE_BYTES;
        char *start = room(out, ESCAPE_MAX * size);
        out->at = write_piece(start, text.data() + done, size);
        done += size;
    }
    write_char(out, '"');
}

template <typename T> static void write_integer(json_writer *out, T number)
{
    char *at = room(out, NUMBER_ROOM);
    out->at = std::to_chars(at, at + NUMBER_ROOM, number).ptr;
}

// A whole double gets a ".0": it came as no integer, and must not be one when it is read again.
static void write_double(json_writer *out, double number)
{
    char *start = room(out, NUMBER_ROOM);
    char *end = std::to_chars(start, start + NUMBER_ROOM, number).ptr;
    size_t size = static_cast<size_t>(end - start);
    bool whole = !memchr(start, '.', size) && !memchr(start, 'e', size);
    out->at = end;
    if (whole) write_word(out, ".0", 2);
}

static void write_element(json_writer *out, dom::element element);

static void write_object(json_writer *out, dom::object fields)
{
    char before = '{';
    for (dom::object::iterator at = fields.begin(), end = fields.end(); at != end; ++at) {
        write_char(out, before);
        write_string(out, at.key());
        write_char(out, ':');
        write_element(out, at.value());
        before = ',';
    }
    if (before == '{') write_char(out, '{');
    write_char(out, '}');
}

static void write_array(json_writer *out, dom::array elements)
{
    char before = '[';
    for (dom::array::iterator at = elements.begin(), end = elements.end(); at != end; ++at) {
        write_char(out, before);
        write_element(out, *at);
        before = ',';
    }
    if (before == '[') write_char(out, '[');
    write_char(out, ']');
}

static void write_value(json_writer *out, const json_value *value)
{
    switch (value->type) {
    case JSON_ABSENT:
        break;
    case JSON_NULL:
        write_word(out, "null", 4);
        break;
    case JSON_BOOL:
        value->boolean ? write_word(out, "true", 4) : write_word(out, "false", 5);
        break;
    case JSON_INT:
        write_integer(out, value->integer);
        break;
    case JSON_NUMBER: {
        double number;
        memcpy(&number, &value->integer, sizeof number);
        value->boolean ? write_double(out, number)
                       : write_integer(out, static_cast<uint64_t>(value->integer));
        break;
    }
    case JSON_STRING:
        write_string(out, std::string_view(value->string.data, value->string.size));
        break;
    case JSON_OBJECT:
        write_object(out, unpack(value->ref, dom::object()));
        break;
    case JSON_ARRAY:
        write_array(out, unpack(value->ref, dom::array()));
        break;
    }
}

// The recursion is no deeper than JSON_DEPTH_MAX, because the parser has refused anything deeper.
static void write_element(json_writer *out, dom::element element)
{
    json_value value;
    value_of(element, &value);
    write_value(out, &value);
}

bytes json_text(json_parser *self, const json_value *value)
{
    json_writer out = {self, self->text, self->text + self->text_capacity};
    write_value(&out, value);
    return bytes{self->text, static_cast<size_t>(out.at - self->text)};
}

// ---- json_source ----
//
// simdjson's tape says what the values are, and its index of structural characters where in the
// text the tokens begin; commas and colons stand in the index alone. So both are walked together.

static uint8_t tape_type(const json_parser *self, size_t at)
{
    return static_cast<uint8_t>(self->parser.doc.tape[at] >> 56);
}

static size_t tape_next(const json_parser *self, size_t at)
{
    uint8_t type = tape_type(self, at);
    return at + (type == 'l' || type == 'u' || type == 'd' ? 2 : 1);
}

static size_t token_start(const json_parser *self, size_t token)
{
    const auto &index = *self->parser.implementation;
    return token < index.n_structural_indexes ? index.structural_indexes[token] : self->source.size;
}

static size_t skip_separators(const json_parser *self, size_t token)
{
    for (size_t at = token_start(self, token); at < self->source.size;
         at = token_start(self, ++token))
        if (self->source.data[at] != ',' && self->source.data[at] != ':') break;
    return token;
}

// Moves on to the token at that place of the tape; back to the first one if it was passed.
static void walk_to(json_parser *self, size_t tape_at)
{
    if (self->tape_at == 0 || self->tape_at > tape_at) {
        self->tape_at = 1; // the first word is the document's
        self->token = 0;
    }
    while (self->tape_at < tape_at) {
        self->tape_at = tape_next(self, self->tape_at);
        self->token = skip_separators(self, self->token + 1);
    }
}

// The place of the last token of what begins there.
static size_t tape_last(const json_parser *self, size_t at)
{
    uint8_t type = tape_type(self, at);
    bool container = type == '{' || type == '[';
    return container ? static_cast<uint32_t>(self->parser.doc.tape[at]) - 1 : at;
}

bytes json_source(json_parser *self, const json_value *value)
{
    if (value->type == JSON_ABSENT) return bytes{self->text, 0};
    size_t first = static_cast<size_t>(value->ref[1]);
    walk_to(self, first);
    size_t start = token_start(self, self->token);
    walk_to(self, tape_last(self, first));
    size_t end = token_start(self, self->token + 1);
    json_writer out = {self, self->text, self->text + self->text_capacity};
    room(&out, end - start + simdjson::SIMDJSON_PADDING);
    size_t size = 0;
    auto error = simdjson::minify(self->source.data + start, end - start, self->text, size);
    must(error == simdjson::SUCCESS);
    return bytes{self->text, size};
}
