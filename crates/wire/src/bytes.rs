//! Encodes byte strings inside lists, pairs and options. As plain `Vec<u8>` each byte would travel as a separate
//! number.

/// For `Vec<Vec<u8>>`.
pub mod list {
    use minicbor::bytes::ByteSlice;
    use minicbor::decode::{Decoder, Error};
    use minicbor::encode::{self, Encoder, Write};

    pub fn encode<C, W: Write>(
        list: &[Vec<u8>],
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        encoder.array(list.len() as u64)?;
        list.iter().try_for_each(|bytes| encoder.bytes(bytes).map(drop))
    }

    pub fn decode<C>(decoder: &mut Decoder<'_>, _: &mut C) -> Result<Vec<Vec<u8>>, Error> {
        decoder.array_iter::<&ByteSlice>()?.map(|bytes| bytes.map(|bytes| bytes.to_vec())).collect()
    }
}

/// For `Vec<(Vec<u8>, Vec<u8>)>`.
pub mod pairs {
    use minicbor::bytes::ByteSlice;
    use minicbor::decode::{Decoder, Error};
    use minicbor::encode::{self, Encoder, Write};

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    pub fn encode<C, W: Write>(
        pairs: &Pairs,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        encoder.array(pairs.len() as u64)?;
        pairs.iter().try_for_each(|(name, value)| encoder.array(2)?.bytes(name)?.bytes(value).map(drop))
    }

    pub fn decode<C>(decoder: &mut Decoder<'_>, _: &mut C) -> Result<Pairs, Error> {
        let pairs = decoder.array_iter::<(&ByteSlice, &ByteSlice)>()?;
        pairs.map(|pair| pair.map(|(name, value)| (name.to_vec(), value.to_vec()))).collect()
    }
}
